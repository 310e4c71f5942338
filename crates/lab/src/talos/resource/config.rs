//! The machine config, and what follows from it at once.

use serde_json::Value;

use super::proto::Form;
use super::{Item, KIND, Kind, Spec, View};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "MachineConfigs.config.talos.dev",
        namespace: "config",
        sensitive_since: Some(0),
        list: machine_configs,
        ..KIND
    },
    Kind {
        name: "MachineTypes.config.talos.dev",
        namespace: "config",
        columns: &[("Type", "{@}")],
        proto: &[("", 1, Form::Enum(MACHINE_TYPES))],
        list: machine_types,
        ..KIND
    },
];

pub(super) const MACHINE_TYPES: &[(&str, u64)] = &[("init", 1), ("controlplane", 2), ("worker", 3)];

/// What runs, and since 1.12 what is on the disk and will run after the next boot: not a config that is
/// tried, but one that is staged.
fn machine_configs(view: &View<'_>) -> Vec<Item> {
    let Some(config) = &view.node.config else { return vec![] };
    let item = |id: &str, text| Item { id: id.to_owned(), spec: Spec::Text(text), version: None };
    let mut found = vec![item("v1alpha1", config.text.clone())];
    if view.node.version.is_at_least(12) {
        let saved = match &view.node.system_disk {
            Some(disk) => view.site.written(disk).state.and_then(|state| state.config),
            // A machine that is still to be installed has no other place for it.
            None => Some(config.text.clone()),
        };
        found.extend(saved.map(|text| item("persistent", text)));
    }
    found
}

fn machine_types(view: &View<'_>) -> Vec<Item> {
    let Some(name) = machine_type(view) else { return vec![] };
    vec![Item::new("machine-type", Value::from(name))]
}

fn machine_type(view: &View<'_>) -> Option<&'static str> {
    let config = view.node.config.as_ref()?;
    Some(if config.facts.is_control_plane { "controlplane" } else { "worker" })
}
