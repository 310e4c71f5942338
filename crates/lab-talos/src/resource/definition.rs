//! Definitions of all resource types, by release of Talos, and the namespaces.
//!
//! The table has one line for each resource type and range of releases. A line contains: name, releases of Talos 1, namespace,
//! controller that owns the resources, flags, additional aliases, and display columns. The table matches Talos 1.8.4, 1.9.6,
//! 1.10.9, 1.11.6, 1.12.0, 1.13.6 and 1.14.0-rc.1.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::proto::{Field, Form};
use super::{ALL_SOURCES, Item, NO_RESOURCES, ResourceContext, ResourceSource};
use crate::version::Version;

const TABLE: &str = include_str!("definitions.txt");

/// Namespaces, each with the first minor release of Talos 1 that has it.
const NAMESPACES: &[(&str, u32)] = &[
    ("cluster", 0),
    ("cluster-raw", 0),
    ("config", 0),
    ("containers", 14),
    ("controlplane", 0),
    ("cri", 0),
    ("etcd", 0),
    ("files", 0),
    ("hardware", 0),
    ("k8s", 0),
    ("kubespan", 0),
    ("meta", 0),
    ("network", 0),
    ("network-config", 0),
    ("perf", 0),
    ("runtime", 0),
    ("secrets", 0),
    ("security", 13),
    ("storage", 14),
];

const COLUMN: &[Field] = &[("name", 1, Form::Text), ("jsonPath", 2, Form::Text)];
const DEFINITION: &[Field] = &[
    ("type", 1, Form::Text),
    ("displayType", 2, Form::Text),
    ("defaultNamespace", 3, Form::Text),
    ("aliases", 4, Form::Each(&Form::Text)),
    ("allAliases", 5, Form::Each(&Form::Text)),
    ("printColumns", 6, Form::Each(&Form::Message(COLUMN))),
    ("sensitivity", 7, Form::Enum(&[("sensitive", 1)])),
];

pub(super) const SOURCES: &[ResourceSource] = &[
    ResourceSource {
        name: "ResourceDefinitions.meta.cosi.dev",
        proto: DEFINITION,
        list: |context| of(&context.node.version).map(Definition::to_item).collect(),
    },
    ResourceSource {
        name: "Namespaces.meta.cosi.dev",
        proto: &[("description", 1, Form::Text)],
        list: |context| {
            let known = namespaces(&context.node.version);
            known.map(|name| Item::new(name, json!({ "description": "" }))).collect()
        },
    },
];

/// Definition of a resource type for a range of releases.
pub(crate) struct Definition {
    pub(crate) name: &'static str,
    /// First and last minor release of Talos 1.
    releases: (u32, u32),
    pub(crate) namespace: &'static str,
    /// Controller that owns the resources; empty for resources that Talos writes without a controller.
    pub(crate) owner: &'static str,
    /// Whether only administrators may read resources of this type.
    pub(crate) is_sensitive: bool,
    has_automatic_aliases: bool,
    aliases: Vec<&'static str>,
    /// Display columns, each with title and JSON path.
    columns: Vec<(&'static str, &'static str)>,
    source: &'static ResourceSource,
}

static DEFINITIONS: LazyLock<Vec<Definition>> =
    LazyLock::new(|| TABLE.lines().filter_map(Definition::parse).collect());

/// All definitions of a release.
pub(super) fn of(version: &Version) -> impl Iterator<Item = &'static Definition> + use<> {
    let minor = version.minor;
    DEFINITIONS.iter().filter(move |known| (known.releases.0..=known.releases.1).contains(&minor))
}

pub(super) fn namespaces(version: &Version) -> impl Iterator<Item = &'static str> {
    let known = NAMESPACES.iter().filter(|(_, since)| version.is_at_least(*since));
    known.map(|(name, _)| *name)
}

impl Definition {
    /// Parses a line of the table.
    fn parse(line: &'static str) -> Option<Self> {
        let mut fields = line.split(" | ").map(|field| if field == "-" { "" } else { field });
        let (name, releases) = (fields.next()?, fields.next()?);
        let (first, last) = releases.split_once("..")?;
        let (namespace, owner, flags) = (fields.next()?, fields.next()?, fields.next()?);
        let (aliases, columns) = (fields.next()?, fields.next()?);
        let mut sources = ALL_SOURCES.iter().copied().flatten();
        Some(Self {
            name,
            releases: (first.parse().unwrap_or(0), last.parse().unwrap_or(u32::MAX)),
            namespace,
            owner,
            is_sensitive: flags.contains("sensitive"),
            has_automatic_aliases: !flags.contains("no-automatic-aliases"),
            aliases: aliases.split_whitespace().collect(),
            columns: columns.split("; ").filter_map(|column| column.split_once(" = ")).collect(),
            source: sources.find(|source| source.name == name).unwrap_or(&NO_RESOURCES),
        })
    }

    pub(super) fn list(&self, context: &ResourceContext<'_>) -> Vec<Item> {
        (self.source.list)(context)
    }

    pub(crate) fn to_proto(&self, spec: &Value) -> Vec<u8> {
        super::proto::encode(spec, self.source.proto)
    }

    fn to_item(&self) -> Item {
        let (plural, domain) = self.name.split_once('.').unwrap_or((self.name, ""));
        let display = singular(plural);
        let mut aliases: Vec<String> = self.aliases.iter().map(|&alias| alias.to_owned()).collect();
        let mut all = vec![];
        if self.has_automatic_aliases {
            let plural = plural.to_lowercase();
            aliases.push(display.to_lowercase());
            let parts: Vec<&str> = domain.split('.').collect();
            let longer = (1..parts.len()).map(|end| format!("{plural}.{}", parts[..end].join(".")));
            all.extend(std::iter::once(plural.clone()).chain(longer));
            aliases.extend(abbreviations(self.name));
        }
        all.extend(aliases.iter().cloned());
        let columns = self.columns.iter();
        let columns: Vec<Value> =
            columns.map(|(name, path)| json!({ "name": name, "jsonPath": path })).collect();
        let mut spec = json!({
            "type": self.name,
            "displayType": display,
            "defaultNamespace": self.namespace,
            "aliases": aliases,
            "allAliases": all,
        });
        if !self.has_automatic_aliases {
            spec["skipAutomaticAliases"] = true.into();
        }
        spec["printColumns"] = columns.into();
        if self.is_sensitive {
            spec["sensitivity"] = "sensitive".into();
        }
        Item::new(self.name.to_lowercase(), spec)
    }
}

/// Aliases that are built from the capital letters of a type name.
fn abbreviations(name: &str) -> Vec<String> {
    let plural = name.split('.').next().unwrap_or_default();
    let capitals: String = plural.chars().filter(char::is_ascii_uppercase).collect();
    let short = capitals.to_lowercase();
    match capitals.len() {
        ..=1 => vec![],
        _ if capitals.ends_with('S') => vec![short],
        _ => vec![short.clone(), format!("{short}s")],
    }
}

fn singular(plural: &str) -> String {
    for (ending, instead) in
        [("sses", "ss"), ("tuses", "tus"), ("shes", "sh"), ("ches", "ch"), ("ies", "y"), ("s", "")]
    {
        if let Some(stem) = plural.strip_suffix(ending) {
            return format!("{stem}{instead}");
        }
    }
    plural.to_owned()
}

#[cfg(test)]
mod tests;
