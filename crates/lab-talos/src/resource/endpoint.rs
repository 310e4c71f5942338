//! Where the API servers of the cluster are, and the balancer in front of them on each node.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::cluster::known;
use super::proto::{Field, Form};
use super::{Item, Kind, View};
use crate::config::Applied;

const ENDPOINT: &[Field] = &[("host", 1, Form::Text), ("port", 2, Form::Number)];
const ENDPOINTS: Form = Form::Each(&Form::Message(ENDPOINT));
const DEFAULT_PORT: u64 = 7445;

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "Endpoints.kubernetes.talos.dev",
        proto: &[
            ("addresses", 1, Form::Each(&Form::Address)),
            ("hosts", 2, Form::Each(&Form::Text)),
        ],
        list: endpoints,
    },
    Kind {
        name: "KubePrismEndpoints.kubernetes.talos.dev",
        proto: &[("endpoints", 1, ENDPOINTS)],
        list: |view| {
            let found = balancer(view).into_iter();
            found.map(|(_, all)| Item::new("k8s-cluster", json!({ "endpoints": all }))).collect()
        },
    },
    Kind {
        name: "KubePrismConfigs.kubernetes.talos.dev",
        proto: &[("host", 1, Form::Text), ("port", 2, Form::Number), ("endpoints", 3, ENDPOINTS)],
        list: |view| {
            let found = balancer(view).into_iter();
            let spec = |(port, all)| json!({ "host": "127.0.0.1", "port": port, "endpoints": all });
            found.map(|found| Item::new("k8s-loadbalancer-config", spec(found))).collect()
        },
    },
    Kind {
        name: "KubePrismStatuses.kubernetes.talos.dev",
        proto: &[("host", 1, Form::Text), ("healthy", 2, Form::Number)],
        list: |view| {
            let is_healthy = !api_servers(view).is_empty();
            let found = balancer(view).into_iter();
            found
                .map(|(port, _)| {
                    let host = format!("127.0.0.1:{port}");
                    let spec = json!({ "host": host, "healthy": is_healthy });
                    Item::new("k8s-loadbalancer", spec)
                })
                .collect()
        },
    },
];

/// Addresses of the control planes that discovery shows to this node.
fn members(view: &View<'_>) -> Vec<IpAddr> {
    let members = known(view).into_iter().filter(|member| member.is_control_plane());
    let mut addresses: Vec<IpAddr> =
        members.flat_map(|member| member.network.addresses().collect::<Vec<_>>()).collect();
    addresses.sort_unstable();
    addresses
}

/// Addresses of the API servers that answer, as the Kubernetes service `kubernetes` has them.
fn api_servers(view: &View<'_>) -> Vec<IpAddr> {
    let Some(config) = &view.node.config else { return vec![] };
    let own = view.node.etcd.and_then(|part| view.talos.etcds.get(&part.cluster));
    let mut all = view.talos.etcds.values();
    let is_own = |id: &String| *id == config.facts.cluster_id;
    let Some(cluster) = own.or_else(|| all.find(|etcd| is_own(&etcd.talos_cluster))) else {
        return vec![];
    };
    let serving = cluster.api_servers.keys().filter_map(|vmid| view.talos.nodes.get(vmid));
    let reached = serving.filter(|other| {
        other.vmid == view.node.vmid || view.talos.is_connected(view.node.vmid, other.vmid)
    });
    let mut addresses: Vec<IpAddr> =
        reached.filter_map(crate::talos_state::Node::node_address).collect();
    addresses.sort_unstable();
    addresses
}

fn endpoints(view: &View<'_>) -> Vec<Item> {
    let Some(config) = &view.node.config else { return vec![] };
    let has_hosts = view.node.version.is_at_least(13);
    let item = |id: &str, addresses: Vec<IpAddr>| {
        let addresses: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
        let mut spec = json!({ "addresses": addresses });
        if has_hosts {
            spec["hosts"] = json!([]);
        }
        Item::new(id, spec)
    };
    let mut items = vec![item("discovery", members(view)).owned_by("cluster.EndpointController")];
    // A name that does not resolve leaves no resource, and the lab has no names of clusters.
    let host = config.facts.endpoint.as_ref().and_then(|(host, _)| host.parse().ok());
    items.extend(
        host.map(|host| item("controlplane", vec![host]).owned_by("k8s.StaticEndpointController")),
    );
    let serving = api_servers(view);
    if !serving.is_empty() {
        items.push(item("kube-apiserver", serving).owned_by("k8s.EndpointController"));
    }
    items
}

/// Port of the balancer, and the API servers that it tries.
fn balancer(view: &View<'_>) -> Option<(u64, Vec<Value>)> {
    let config = view.node.config.as_ref()?;
    if !config.flag("machine.features.kubePrism.enabled") {
        return None;
    }
    let port = config.value("machine.features.kubePrism.port");
    let port = port.as_u64().unwrap_or(DEFAULT_PORT);
    let own = local_port(config);
    let endpoint = |host: &str, port: u64| json!({ "host": host, "port": port });
    let mut all: Vec<Value> = vec![];
    if let Some((host, port)) = &config.facts.endpoint {
        all.push(endpoint(host, (*port).into()));
    }
    if config.facts.is_control_plane {
        all.push(endpoint("localhost", own));
    }
    all.extend(members(view).iter().map(|address| endpoint(&address.to_string(), 6443)));
    Some((port, all))
}

/// Port of the API server on a control plane itself.
pub(super) fn local_port(config: &Applied) -> u64 {
    config.value("cluster.controlPlane.localAPIServerPort").as_u64().unwrap_or(6443)
}
