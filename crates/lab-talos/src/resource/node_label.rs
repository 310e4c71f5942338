//! Labels, annotations and taints that Talos sets on the Kubernetes node.

use serde_json::json;

use super::proto::Form;
use super::{Item, ResourceContext, ResourceSource};
use crate::kubernetes;

const PAIR: &[super::proto::Field] = &[("key", 1, Form::Text), ("value", 2, Form::Text)];

pub(super) const SOURCES: &[ResourceSource] = &[
    ResourceSource {
        name: "NodeLabelSpecs.k8s.talos.dev",
        proto: PAIR,
        list: |context| {
            let config = context.node.config.iter();
            let labels = config.flat_map(|config| kubernetes::node_labels(&config.facts));
            labels.map(|(key, value)| pair(&key, &value)).collect()
        },
    },
    ResourceSource {
        name: "NodeAnnotationSpecs.k8s.talos.dev",
        proto: PAIR,
        list: |context| {
            let config = context.node.config.iter();
            let annotations = config.flat_map(|config| &config.facts.node_annotations);
            annotations.map(|(key, value)| pair(key, value)).collect()
        },
    },
    ResourceSource {
        name: "NodeTaintSpecs.k8s.talos.dev",
        proto: &[("key", 1, Form::Text), ("effect", 2, Form::Text), ("value", 3, Form::Text)],
        list: taints,
    },
];

fn pair(key: &str, value: &str) -> Item {
    Item::new(key, json!({ "key": key, "value": value }))
}

fn taints(context: &ResourceContext<'_>) -> Vec<Item> {
    let config = context.node.config.iter();
    let taints = config.flat_map(|config| kubernetes::node_taints(&config.facts));
    taints
        .map(|taint| {
            let text = |key: &str| taint[key].as_str().unwrap_or_default().to_owned();
            let (key, effect, value) = (text("key"), text("effect"), text("value"));
            Item::new(key.clone(), json!({ "key": key, "effect": effect, "value": value }))
        })
        .collect()
}
