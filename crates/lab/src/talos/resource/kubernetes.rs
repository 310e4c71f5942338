//! What the node does for Kubernetes.

use serde_json::{Value, json};

use super::proto::{Field, Form};
use super::{Item, KIND, Kind, View};
use crate::talos::config::Facts;
use crate::talos::kubernetes;
use crate::talos::service::ServiceState;

const NODE_STATUS: &[Field] = &[
    ("nodename", 1, Form::Text),
    ("nodeReady", 2, Form::Number),
    ("unschedulable", 3, Form::Number),
    ("labels", 4, Form::Table),
    ("annotations", 5, Form::Table),
];

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "Nodenames.kubernetes.talos.dev",
        namespace: "k8s",
        columns: &[("Nodename", "{.nodename}")],
        proto: &[("nodename", 1, Form::Text), ("hostnameVersion", 2, Form::Text)],
        list: |view| {
            if view.node.config.is_none() {
                return vec![];
            }
            let spec = json!({
                "nodename": view.node.hostname(), "hostnameVersion": "1", "skipNodeRegistration": false,
            });
            vec![Item::new("nodename", spec)]
        },
        ..KIND
    },
    Kind {
        name: "NodeIPs.kubernetes.talos.dev",
        namespace: "k8s",
        proto: &[("addresses", 1, Form::Each(&Form::Address))],
        list: |view| {
            if view.node.config.is_none() {
                return vec![];
            }
            let address = view.node.node_address().map(|address| address.to_string());
            let addresses: Vec<String> = address.into_iter().collect();
            vec![Item::new("kubelet", json!({ "addresses": addresses }))]
        },
        ..KIND
    },
    Kind {
        name: "NodeStatuses.kubernetes.talos.dev",
        namespace: "k8s",
        columns: &[("Ready", "{.nodeReady}"), ("Unschedulable", "{.unschedulable}")],
        proto: NODE_STATUS,
        list: node_status,
        ..KIND
    },
    Kind {
        name: "KubeletSpecs.kubernetes.talos.dev",
        namespace: "k8s",
        sensitive_since: Some(13),
        proto: &[
            ("image", 1, Form::Text),
            ("args", 2, Form::Each(&Form::Text)),
            ("expectedNodename", 4, Form::Text),
            ("config", 5, Form::Struct),
        ],
        list: kubelet,
        ..KIND
    },
    Kind {
        name: "Endpoints.kubernetes.talos.dev",
        namespace: "controlplane",
        columns: &[("Addresses", "{.addresses}")],
        proto: &[("addresses", 1, Form::Each(&Form::Address))],
        list: endpoints,
        ..KIND
    },
    Kind {
        name: "StaticPods.kubernetes.talos.dev",
        namespace: "k8s",
        proto: &[("", 1, Form::Struct)],
        list: static_pods,
        ..KIND
    },
    Kind {
        name: "StaticPodStatuses.kubernetes.talos.dev",
        namespace: "k8s",
        aliases: &["podstatus"],
        columns: &[("Ready", "{.conditions[?(@.type==\"Ready\")].status}")],
        proto: &[("", 1, Form::Struct)],
        list: static_pod_statuses,
        ..KIND
    },
];

fn node_status(view: &View<'_>) -> Vec<Item> {
    let name = view.node.hostname();
    let Some(object) =
        view.land.kubernetes_of(view.node).and_then(|store| store.get("nodes", "", name))
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
    let spec = json!({
        "nodename": name,
        "nodeReady": is_ready,
        "unschedulable": object["spec"]["unschedulable"] == true,
        "labels": table("labels"),
        "annotations": table("annotations"),
    });
    vec![Item::new(name, spec)]
}

fn kubelet(view: &View<'_>) -> Vec<Item> {
    let Some(config) = &view.node.config else { return vec![] };
    let facts = &config.facts;
    let spec = json!({
        "image": format!("ghcr.io/siderolabs/kubelet:{}", facts.kubelet_version),
        "args": [
            "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubeconfig",
            "--cert-dir=/var/lib/kubelet/pki",
            "--config=/etc/kubernetes/kubelet.yaml",
            format!("--hostname-override={}", view.node.hostname()),
            "--kubeconfig=/etc/kubernetes/kubeconfig-kubelet",
            format!("--node-ip={}", view.node.node_address().map(|a| a.to_string()).unwrap_or_default()),
        ],
        "expectedNodename": view.node.hostname(),
        "config": {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "clusterDomain": facts.dns_domain,
        },
    });
    vec![Item::new("kubelet", spec)]
}

/// Where API servers are, by the members that this node knows.
fn endpoints(view: &View<'_>) -> Vec<Item> {
    let Some(config) = &view.node.config else { return vec![] };
    let cluster = |facts: &Facts| (facts.cluster_id.clone(), facts.cluster_secret.clone());
    let others = view.land.nodes.values().filter(|other| {
        let theirs = other.config.as_ref().map(|theirs| cluster(&theirs.facts));
        other.is_control_plane()
            && theirs == Some(cluster(&config.facts))
            && view.land.is_connected(view.node.vmid, other.vmid)
    });
    let addresses: Vec<String> =
        others.filter_map(|other| Some(other.node_address()?.to_string())).collect();
    let id = if config.facts.has_discovery { "discovery" } else { "controlplane" };
    vec![Item::new(id, json!({ "addresses": addresses, "hosts": [] }))]
}

pub(crate) const COMPONENTS: [&str; 3] =
    ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// Static pods are there once the node's own etcd is.
fn static_pods(view: &View<'_>) -> Vec<Item> {
    let etcd = view.node.services.get("etcd");
    if !etcd.is_some_and(crate::talos::service::Service::is_healthy) {
        return vec![];
    }
    let Some(components) = view.land.components.get(&view.node.vmid) else { return vec![] };
    let pods = kubernetes::static_pods(components).into_iter();
    pods.map(|pod| {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        Item::new(name, pod)
    })
    .collect()
}

/// The kubelet tells how they are.
fn static_pod_statuses(view: &View<'_>) -> Vec<Item> {
    let kubelet = view.node.services.get("kubelet");
    if !kubelet.is_some_and(|kubelet| kubelet.state == ServiceState::Running) {
        return vec![];
    }
    let Some(store) = view.land.kubernetes_of(view.node) else { return vec![] };
    COMPONENTS
        .into_iter()
        .filter_map(|name| {
            let pod = format!("{name}-{}", view.node.hostname());
            let status: Value = store.get("pods", "kube-system", &pod)?["status"].clone();
            (!status.is_null()).then(|| Item::new(format!("kube-system/{pod}"), status))
        })
        .collect()
}
