//! Machine config and machine type.

use serde_json::Value;

use super::proto::Form;
use super::{Item, ResourceContext, ResourceSource, Spec};

pub(super) const SOURCES: &[ResourceSource] = &[
    ResourceSource {
        name: "MachineConfigs.config.talos.dev",
        proto: &[("", 1, Form::Text)],
        list: machine_configs,
    },
    ResourceSource {
        name: "MachineTypes.config.talos.dev",
        proto: &[("", 1, Form::Enum(MACHINE_TYPES))],
        list: machine_types,
    },
];

pub(super) const MACHINE_TYPES: &[(&str, u64)] = &[("init", 1), ("controlplane", 2), ("worker", 3)];

/// Configs that a node reports: the active config, and since 1.10 also the persistent config, which the next boot uses. Both
/// differ while a config is tried or staged. A node reports the persistent config only if it was saved in this boot.
fn machine_configs(context: &ResourceContext<'_>) -> Vec<Item> {
    let Some(config) = &context.node.config else { return vec![] };
    // Since 1.12, the YAML of the resource is one string that contains the whole config. Before 1.12, the YAML was the config
    // itself.
    let is_string = context.node.version.is_at_least(12);
    let item = |id: &str, text: String| {
        if is_string {
            let annotations = &[("talos.dev/yaml-spec", "1")];
            Item { annotations, ..Item::new(id, text.into()) }
        } else {
            Item { spec: Spec::Text(text), ..Item::new(id, Value::Null) }
        }
    };
    let mut found = vec![item("v1alpha1", config.text.clone())];
    let saved = context.node.persistent.as_ref().filter(|_| context.node.version.is_at_least(10));
    found.extend(saved.map(|saved| item("persistent", saved.text.clone())));
    found
}

fn machine_types(context: &ResourceContext<'_>) -> Vec<Item> {
    let Some(name) = machine_type(context) else { return vec![] };
    vec![Item::new("machine-type", Value::from(name))]
}

fn machine_type(context: &ResourceContext<'_>) -> Option<&'static str> {
    let config = context.node.config.as_ref()?;
    Some(if config.facts.is_control_plane { "controlplane" } else { "worker" })
}
