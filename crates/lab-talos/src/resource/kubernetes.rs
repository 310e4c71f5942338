//! Kubernetes resources of the node.

use serde_json::{Value, json};

use super::proto::{Field, Form};
use super::{Item, ResourceContext, ResourceSource};
use crate::kubernetes;
use crate::service::ServiceState;

const NODE_STATUS: &[Field] = &[
    ("nodename", 1, Form::Text),
    ("nodeReady", 2, Form::Number),
    ("unschedulable", 3, Form::Number),
    ("labels", 4, Form::Table),
    ("annotations", 5, Form::Table),
];

pub(super) const SOURCES: &[ResourceSource] = &[
    ResourceSource {
        name: "Nodenames.kubernetes.talos.dev",
        proto: &[("nodename", 1, Form::Text), ("hostnameVersion", 2, Form::Text)],
        list: |context| {
            if context.node.config.is_none() {
                return vec![];
            }
            let spec = json!({
                "nodename": context.node.hostname(), "hostnameVersion": "1", "skipNodeRegistration": false,
            });
            vec![Item::new("nodename", spec)]
        },
    },
    ResourceSource {
        name: "NodeIPs.kubernetes.talos.dev",
        proto: &[("addresses", 1, Form::Each(&Form::Address))],
        list: |context| {
            if context.node.config.is_none() {
                return vec![];
            }
            let address = context.node.node_address().map(|address| address.to_string());
            let addresses: Vec<String> = address.into_iter().collect();
            vec![Item::new("kubelet", json!({ "addresses": addresses }))]
        },
    },
    ResourceSource {
        name: "NodeStatuses.kubernetes.talos.dev",
        proto: NODE_STATUS,
        list: node_status,
    },
    ResourceSource {
        name: "StaticPods.kubernetes.talos.dev",
        proto: &[("", 1, Form::Struct)],
        list: static_pods,
    },
    ResourceSource {
        name: "StaticPodStatuses.kubernetes.talos.dev",
        proto: &[("", 1, Form::Struct)],
        list: static_pod_statuses,
    },
];

fn node_status(context: &ResourceContext<'_>) -> Vec<Item> {
    let name = context.node.hostname();
    let Some(object) =
        context.talos.kubernetes_of(context.node).and_then(|store| store.get("nodes", "", name))
    else {
        return vec![];
    };
    let conditions = object["status"]["conditions"].as_array();
    let is_ready = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    let table = |key: &str| {
        let table = object["metadata"][key].clone();
        if table.is_null() { json!({}) } else { table }
    };
    let mut spec = json!({
        "nodename": name,
        "nodeReady": is_ready,
        "unschedulable": object["spec"]["unschedulable"] == true,
        "labels": table("labels"),
        "annotations": table("annotations"),
    });
    if context.node.version.is_at_least(13) {
        let ranges = object["spec"]["podCIDRs"].clone();
        spec["podCIDRs"] = if ranges.is_null() { json!([]) } else { ranges };
    }
    vec![Item::new(name, spec)]
}

pub(crate) const COMPONENTS: [&str; 3] =
    ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// Static pods. They exist as soon as etcd of the node is healthy.
fn static_pods(context: &ResourceContext<'_>) -> Vec<Item> {
    let etcd = context.node.services.get("etcd");
    if !etcd.is_some_and(crate::service::Service::is_healthy) {
        return vec![];
    }
    let Some(components) = context.talos.components.get(&context.node.vmid) else { return vec![] };
    let pods = kubernetes::static_pods(components).into_iter();
    pods.map(|pod| {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        Item::new(name, pod)
    })
    .collect()
}

/// States of the static pods. The kubelet reports them.
fn static_pod_statuses(context: &ResourceContext<'_>) -> Vec<Item> {
    let kubelet = context.node.services.get("kubelet");
    if !kubelet.is_some_and(|kubelet| kubelet.state == ServiceState::Running) {
        return vec![];
    }
    let Some(store) = context.talos.kubernetes_of(context.node) else { return vec![] };
    COMPONENTS
        .into_iter()
        .filter_map(|name| {
            let pod = format!("{name}-{}", context.node.hostname());
            let status: Value = store.get("pods", "kube-system", &pod)?["status"].clone();
            (!status.is_null()).then(|| Item::new(format!("kube-system/{pod}"), status))
        })
        .collect()
}
