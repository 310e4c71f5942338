//! The settings of the control plane, and the manifests that a cluster begins with.

use serde_json::{Value, json};

use super::kubernetes::COMPONENTS;
use super::proto::{Field, Form};
use super::{Item, KIND, Kind, View};
use crate::talos::config::Facts;
use crate::talos::kubernetes;

const CONTROL_PLANE: &str = "controlplane";
const API_SERVER: &[Field] = &[
    ("image", 1, Form::Text),
    ("cloudProvider", 2, Form::Text),
    ("controlPlaneEndpoint", 3, Form::Text),
    ("etcdServers", 4, Form::Each(&Form::Text)),
    ("localPort", 5, Form::Number),
    ("serviceCIDR", 6, Form::Each(&Form::Text)),
    ("advertisedAddress", 11, Form::Text),
];
const CONTROLLER_MANAGER: &[Field] = &[
    ("enabled", 1, Form::Number),
    ("image", 2, Form::Text),
    ("podCIDRs", 4, Form::Each(&Form::Text)),
    ("serviceCIDRs", 5, Form::Each(&Form::Text)),
];

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "APIServerConfigs.kubernetes.talos.dev",
        namespace: CONTROL_PLANE,
        sensitive_since: Some(13),
        proto: API_SERVER,
        list: |view| component(view, COMPONENTS[0], api_server),
        ..KIND
    },
    Kind {
        name: "ControllerManagerConfigs.kubernetes.talos.dev",
        namespace: CONTROL_PLANE,
        proto: CONTROLLER_MANAGER,
        list: |view| component(view, COMPONENTS[1], controller_manager),
        ..KIND
    },
    Kind {
        name: "SchedulerConfigs.kubernetes.talos.dev",
        namespace: CONTROL_PLANE,
        proto: &[("enabled", 1, Form::Number), ("image", 2, Form::Text)],
        list: |view| {
            component(
                view,
                COMPONENTS[2],
                |_, facts| json!({ "enabled": true, "image": facts.scheduler_image, "extraVolumes": [] }),
            )
        },
        ..KIND
    },
    Kind {
        name: "BootstrapManifestsConfigs.kubernetes.talos.dev",
        namespace: CONTROL_PLANE,
        proto: &[
            ("clusterDomain", 2, Form::Text),
            ("podCIDRs", 3, Form::Each(&Form::Text)),
            ("proxyEnabled", 4, Form::Number),
            ("proxyImage", 5, Form::Text),
            ("coreDNSEnabled", 7, Form::Number),
            ("flannelEnabled", 11, Form::Number),
        ],
        list: |view| component(view, "manifests", bootstrap_manifests),
        ..KIND
    },
    Kind {
        name: "Manifests.kubernetes.talos.dev",
        namespace: CONTROL_PLANE,
        proto: &[("", 1, Form::Each(&Form::Message(&[("", 1, Form::Struct)])))],
        list: manifests,
        ..KIND
    },
    Kind {
        name: "ManifestStatuses.kubernetes.talos.dev",
        namespace: CONTROL_PLANE,
        proto: &[("manifestsApplied", 1, Form::Each(&Form::Text))],
        list: |view| {
            if view.node.etcd.is_none() {
                return vec![];
            }
            let ids: Vec<String> = manifests(view).into_iter().map(|item| item.id).collect();
            vec![Item::new("manifests", json!({ "manifestsApplied": ids }))]
        },
        ..KIND
    },
];

/// Only control planes have these.
fn facts<'a>(view: &View<'a>) -> Option<&'a Facts> {
    let config = view.node.config.as_ref()?;
    config.facts.is_control_plane.then_some(&config.facts)
}

fn component(view: &View<'_>, id: &str, spec: fn(&View<'_>, &Facts) -> Value) -> Vec<Item> {
    // Pods name the version that they were made of, and who makes them counts.
    let version = view.land.components.get(&view.node.vmid).and_then(|all| all.0.get(id));
    let version = version.map(|component| component.version);
    let item = |facts| Item { version, ..Item::new(id, spec(view, facts)) };
    facts(view).map(item).into_iter().collect()
}

fn api_server(view: &View<'_>, facts: &Facts) -> Value {
    let address = view.node.node_address().map(|address| address.to_string());
    let endpoint = facts.endpoint.as_ref().map(|(host, port)| format!("https://{host}:{port}"));
    json!({
        "image": facts.api_server_image,
        "cloudProvider": "",
        "controlPlaneEndpoint": endpoint,
        "etcdServers": ["https://localhost:2379"],
        "localPort": 6443,
        "serviceCIDR": facts.service_subnets,
        "extraArgs": {},
        "extraVolumes": [],
        "environmentVariables": {},
        "advertisedAddress": address.unwrap_or_default(),
    })
}

fn controller_manager(_: &View<'_>, facts: &Facts) -> Value {
    json!({
        "enabled": true,
        "image": facts.controller_manager_image,
        "cloudProvider": "",
        "podCIDRs": facts.pod_subnets,
        "serviceCIDRs": facts.service_subnets,
        "extraVolumes": [],
        "environmentVariables": {},
    })
}

fn bootstrap_manifests(_: &View<'_>, facts: &Facts) -> Value {
    json!({
        "clusterDomain": facts.dns_domain,
        "podCIDRs": facts.pod_subnets,
        "proxyEnabled": facts.has_proxy,
        "proxyImage": facts.proxy_image,
        "coreDNSEnabled": facts.has_core_dns,
        "flannelEnabled": facts.cni == "flannel",
        "cniName": facts.cni,
    })
}

/// What a control plane applies once its API server answers.
fn manifests(view: &View<'_>) -> Vec<Item> {
    let Some(facts) = facts(view) else { return vec![] };
    let all = kubernetes::manifests(facts, &view.node.version);
    all.into_iter().map(|(id, objects)| Item::new(id, objects.into())).collect()
}
