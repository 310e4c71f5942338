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

/// Active config, and since 1.12 also the persistent one, which the next boot uses: it differs from the active config
/// while a config is tried or staged.
fn machine_configs(context: &ResourceContext<'_>) -> Vec<Item> {
    let Some(config) = &context.node.config else { return vec![] };
    // Since 1.12 the YAML form is one string with the whole config; before, it was the config itself.
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
    if is_string {
        let saved = match &context.node.system_disk {
            Some(disk) => context.hypervisor.written(disk).state.and_then(|state| state.config),
            // A machine that is not installed yet has no disk to store it on.
            None => Some(config.text.clone()),
        };
        found.extend(saved.map(|text| item("persistent", text)));
    }
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
