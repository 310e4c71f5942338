//! Cluster-wide sections: pools, mappings, high availability, options and faults.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};
use talmox_lab_pve::Release;
use talmox_lab_pve::pve_state::{Ha, Mapping, Mappings, Pool};
use talmox_yaml::{Node, Resolved, Value};

use super::FaultSpec;
use super::section::{Read, Section};

pub(super) fn pools(section: &Section<'_>) -> Read<BTreeMap<String, Pool>> {
    let mut pools = BTreeMap::new();
    for node in section.list("pools")? {
        let keys = ["poolid", "comment", "vms", "storage"];
        let pool = Section::open(section.source, node, "a pool", &keys)?;
        let mut vms = std::collections::BTreeSet::new();
        for word in pool.words("vms")? {
            let vmid =
                word.parse().map_err(|_| pool.error("vms", format!("`{word}` is not a vmid")));
            vms.insert(vmid?);
        }
        let storages = pool.words("storage")?.into_iter().collect();
        let comment = pool.text("comment")?;
        pools.insert(pool.name("poolid")?, Pool { comment, vms, storages });
    }
    Ok(pools)
}

pub(super) fn mappings(section: &Section<'_>) -> Read<Mappings> {
    let Some(node) = section.get("mappings") else { return Ok(Mappings::default()) };
    let section = Section::open(section.source, node, "`mappings`", &["pci", "usb"])?;
    Ok(Mappings { pci: mappings_of(&section, "pci")?, usb: mappings_of(&section, "usb")? })
}

fn mappings_of(section: &Section<'_>, key: &str) -> Read<BTreeMap<String, Mapping>> {
    let options = ["description", "mdev", "live-migration-capable"];
    let mut keys = vec!["id", "map"];
    keys.extend(options);
    let mut mappings = BTreeMap::new();
    for node in section.list(key)? {
        let section = Section::open(section.source, node, "a mapping", &keys)?;
        let mut mapping = Mapping::default();
        for entry in section.list("map")? {
            mapping.entries.push(section.source.text(entry, "an entry of a mapping")?);
        }
        for key in options {
            if let Some(value) = section.text(key)? {
                mapping.options.insert(key.to_owned(), value);
            }
        }
        mappings.insert(section.name("id")?, mapping);
    }
    Ok(mappings)
}

pub(super) fn ha(section: &Section<'_>, release: Release) -> Read<Ha> {
    let Some(node) = section.get("ha") else { return Ok(Ha::default()) };
    let section = Section::open(section.source, node, "`ha`", &["resources", "groups", "rules"])?;
    let sections = |key: &str| -> Read<BTreeMap<String, BTreeMap<String, String>>> {
        let mut sections = BTreeMap::new();
        for (name, node) in section.entries(key)? {
            sections.insert(name, section.source.options(node, "its options")?);
        }
        Ok(sections)
    };
    let (wrong, instead) = match release {
        Release::V8 => ("rules", "groups"),
        Release::V9 => ("groups", "rules"),
    };
    if section.get(wrong).is_some() {
        let message = format!("Proxmox VE {release} has no HA {wrong}");
        return Err(section.error(wrong, message).hint(format!("it has `{instead}`")));
    }
    Ok(Ha {
        resources: sections("resources")?,
        groups: sections("groups")?,
        rules: sections("rules")?,
        ..Ha::default()
    })
}

/// Options of `datacenter.cfg`, given as the text of the file or as a mapping.
pub(super) fn datacenter(section: &Section<'_>) -> Read<BTreeMap<String, String>> {
    let Some(node) = section.get("datacenter") else { return Ok(BTreeMap::new()) };
    if node.as_map().is_some() {
        return section.options("datacenter");
    }
    let text = section.source.text(node, "`datacenter`")?;
    let mut options = BTreeMap::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let Some((key, value)) = line.split_once(':') else {
            return Err(section.error("datacenter", format!("`{line}` is not `option: value`")));
        };
        options.insert(key.trim().to_owned(), value.trim().to_owned());
    }
    Ok(options)
}

pub(super) fn faults(section: &Section<'_>) -> Read<Vec<FaultSpec>> {
    let faults = section.list("faults")?;
    let spec = |node: &Node| FaultSpec {
        path: section.source.path.to_owned(),
        line: section.source.line(node.span),
        value: json(node),
    };
    Ok(faults.iter().map(spec).collect())
}

/// Converts a YAML tree to JSON. A scalar keeps the type that YAML gives it.
fn json(node: &Node) -> Json {
    match &node.value {
        Value::Seq(seq) => Json::Array(seq.items.iter().map(json).collect()),
        Value::Map(map) => {
            let entry = |entry: &talmox_yaml::Entry| {
                (entry.key.as_str().unwrap_or_default().to_owned(), json(&entry.value))
            };
            Json::Object(map.entries.iter().map(entry).collect::<Map<_, _>>())
        }
        Value::Scalar(scalar) => match scalar.resolve() {
            Resolved::Null => Json::Null,
            Resolved::Bool(flag) => Json::Bool(flag),
            Resolved::Int(int) => i64::try_from(int).map_or(Json::Null, Json::from),
            Resolved::Float(float) => Json::from(float),
            Resolved::Text => Json::String(scalar.text.clone()),
        },
    }
}
