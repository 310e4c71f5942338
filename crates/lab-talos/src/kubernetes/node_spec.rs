//! Labels, annotations and taints that the config of a node sets on its Node object.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use talmox_lab_kube::KubeStore;
use talmox_lab_kube::object::{self, annotation, list, text};

use crate::config::Facts;

const ROLE: &str = "node-role.kubernetes.io/control-plane";
const OWNED_LABELS: &str = "talos.dev/owned-labels";
const OWNED_ANNOTATIONS: &str = "talos.dev/owned-annotations";
const OWNED_TAINTS: &str = "talos.dev/owned-taints";

/// Settings of a config that apply to the Node object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NodeSpec {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) taints: Vec<Value>,
}

impl NodeSpec {
    pub(super) fn of(facts: &Facts) -> Self {
        let annotations = facts.node_annotations.clone();
        Self { labels: labels(facts), annotations, taints: taints(facts) }
    }
}

pub(crate) fn labels(facts: &Facts) -> BTreeMap<String, String> {
    let mut labels = facts.node_labels.clone();
    if facts.is_control_plane {
        labels.insert(ROLE.to_owned(), String::new());
    }
    labels
}

pub(crate) fn taints(facts: &Facts) -> Vec<Value> {
    let mut taints: Vec<Value> = facts
        .node_taints
        .iter()
        .map(|(key, text)| match text.rsplit_once(':') {
            Some(("", effect)) => json!({"key": key, "effect": effect}),
            Some((value, effect)) => json!({"key": key, "value": value, "effect": effect}),
            None => json!({"key": key, "effect": text}),
        })
        .collect();
    if facts.is_control_plane && !facts.schedules_on_control_planes {
        taints.push(json!({"key": ROLE, "effect": "NoSchedule"}));
    }
    taints
}

/// Updates the Node object. Values that Talos did not set stay. Values that Talos set, and that are no longer in the config,
/// are removed.
pub(super) fn apply(store: &KubeStore, node: &str, spec: &NodeSpec) {
    let NodeSpec { labels, annotations: notes, taints } = spec;
    store.change("nodes", "", node, |node| {
        let owned = owned(node, OWNED_LABELS);
        let all = object::entry(&mut node["metadata"], "labels");
        all.retain(|key, _| labels.contains_key(key) || !owned.contains(key));
        for (key, value) in labels {
            all.insert(key.clone(), value.as_str().into());
        }
        let owned = self::owned(node, OWNED_TAINTS);
        let key = |taint: &Value| text(taint, "/key").to_owned();
        let mut wanted = list(node, "/spec/taints").to_vec();
        let is_configured =
            |taint: &Value| taints.iter().any(|configured| key(configured) == key(taint));
        wanted.retain(|taint| !owned.contains(&key(taint)) && !is_configured(taint));
        wanted.extend(taints.iter().cloned());
        let spec = object::entry(node, "spec");
        if wanted.is_empty() {
            spec.shift_remove("taints");
        } else {
            spec.insert("taints".to_owned(), wanted.into());
        }
        let owned = self::owned(node, OWNED_ANNOTATIONS);
        let annotations = object::entry(&mut node["metadata"], "annotations");
        annotations.retain(|key, _| notes.contains_key(key) || !owned.contains(key));
        for (key, value) in notes {
            annotations.insert(key.clone(), value.as_str().into());
        }
        let names: Vec<&String> = notes.keys().collect();
        annotations.insert(OWNED_ANNOTATIONS.to_owned(), json!(names).to_string().into());
        let names: Vec<&String> = labels.keys().collect();
        annotations.insert(OWNED_LABELS.to_owned(), json!(names).to_string().into());
        let names: Vec<String> = taints.iter().map(key).collect();
        annotations.insert(OWNED_TAINTS.to_owned(), json!(names).to_string().into());
    });
}

fn owned(node: &Value, key: &str) -> Vec<String> {
    annotation(node, key).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}
