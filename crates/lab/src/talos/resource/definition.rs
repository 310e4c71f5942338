//! What kinds and namespaces there are: clients find the names that people type in here.

use serde_json::{Value, json};

use super::proto::{Field, Form};
use super::{Item, KIND, Kind, View, kinds};

pub(super) const NAMESPACES: &[&str] = &[
    "cluster",
    "cluster-raw",
    "config",
    "controlplane",
    "cri",
    "etcd",
    "extras",
    "files",
    "hardware",
    "k8s",
    "kubespan",
    "meta",
    "network",
    "network-config",
    "perf",
    "runtime",
    "secrets",
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

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "ResourceDefinitions.meta.cosi.dev",
        namespace: "meta",
        aliases: &["api-resources"],
        columns: &[("Aliases", "{.aliases[:]}")],
        proto: DEFINITION,
        list: |view| {
            let version = &view.node.version;
            kinds(view.node).map(|kind| definition(kind, kind.is_sensitive(version))).collect()
        },
        ..KIND
    },
    Kind {
        name: "Namespaces.meta.cosi.dev",
        namespace: "meta",
        aliases: &["ns"],
        columns: &[("Description", "{.description}")],
        proto: &[("description", 1, Form::Text)],
        list: namespaces,
        ..KIND
    },
];

fn namespaces(_: &View<'_>) -> Vec<Item> {
    let described = |name: &&str| Item::new(*name, json!({ "description": "" }));
    NAMESPACES.iter().map(described).collect()
}

/// Aliases are made of a kind's name: in the singular, with and without its domain, by its capitals.
fn definition(kind: &'static Kind, is_sensitive: bool) -> Item {
    let (plural, domain) = kind.name.split_once('.').unwrap_or((kind.name, ""));
    let display = singular(plural);
    let mut aliases: Vec<String> = kind.aliases.iter().map(|&alias| alias.to_owned()).collect();
    let mut all = vec![];
    // Two kinds would answer to `mountstatus`: this one leaves its automatic names to the other.
    if kind.name != "MountStatuses.runtime.talos.dev" {
        aliases.push(display.to_lowercase());
        all.push(plural.to_lowercase());
        let parts: Vec<&str> = domain.split('.').collect();
        for end in 1..parts.len() {
            all.push(format!("{}.{}", plural.to_lowercase(), parts[..end].join(".")));
        }
        let capitals: String = plural.chars().filter(char::is_ascii_uppercase).collect();
        if capitals.len() > 1 {
            aliases.push(capitals.to_lowercase());
            if !capitals.ends_with('S') {
                aliases.push(format!("{}s", capitals.to_lowercase()));
            }
        }
    }
    all.extend(aliases.iter().cloned());
    let columns: Vec<Value> =
        kind.columns.iter().map(|(name, path)| json!({ "name": name, "jsonPath": path })).collect();
    let mut spec = json!({
        "type": kind.name,
        "displayType": display,
        "defaultNamespace": kind.namespace,
        "aliases": aliases,
        "allAliases": all,
        "printColumns": columns,
    });
    if is_sensitive {
        spec["sensitivity"] = "sensitive".into();
    }
    Item::new(kind.name.to_lowercase(), spec)
}

fn singular(plural: &str) -> String {
    for (ending, instead) in [("sses", "ss"), ("tuses", "tus"), ("ies", "y"), ("s", "")] {
        if let Some(stem) = plural.strip_suffix(ending) {
            return format!("{stem}{instead}");
        }
    }
    plural.to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::Spec;
    use super::*;

    fn aliases_of(name: &'static str) -> Vec<String> {
        let mut all = super::super::KINDS.iter().copied().flatten();
        let kind = all.find(|kind| kind.name == name).unwrap();
        let Spec::Value(spec) = definition(kind, false).spec else { panic!("a value") };
        let all = spec["allAliases"].as_array().unwrap();
        all.iter().map(|alias| alias.as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn names_that_people_type_are_found() {
        assert_eq!(
            aliases_of("MachineStatuses.runtime.talos.dev"),
            [
                "machinestatuses",
                "machinestatuses.runtime",
                "machinestatuses.runtime.talos",
                "machinestatus",
                "ms"
            ]
        );
        assert!(aliases_of("NodeAddresses.net.talos.dev").contains(&"nodeaddress".to_owned()));
        assert!(aliases_of("Identities.cluster.talos.dev").contains(&"identity".to_owned()));
        assert!(aliases_of("NodeIPs.kubernetes.talos.dev").contains(&"nips".to_owned()));
        let modules = aliases_of("LoadedKernelModules.runtime.talos.dev");
        for alias in ["module", "modules", "lkm", "lkms", "loadedkernelmodule"] {
            assert!(modules.contains(&alias.to_owned()), "{alias}");
        }
        assert!(aliases_of("Members.cluster.talos.dev").contains(&"member".to_owned()));
    }
}
