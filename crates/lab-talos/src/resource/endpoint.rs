//! Endpoints of the API servers, and the load balancer KubePrism of each node.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::cluster::known_members;
use super::proto::{Field, Form};
use super::{Item, ResourceContext, ResourceSource};
use crate::config::AppliedConfig;

const ENDPOINT: &[Field] = &[("host", 1, Form::Text), ("port", 2, Form::Number)];
const ENDPOINTS: Form = Form::Each(&Form::Message(ENDPOINT));
const DEFAULT_PORT: u64 = 7445;

pub(super) const SOURCES: &[ResourceSource] = &[
    ResourceSource {
        name: "Endpoints.kubernetes.talos.dev",
        proto: &[
            ("addresses", 1, Form::Each(&Form::Address)),
            ("hosts", 2, Form::Each(&Form::Text)),
        ],
        list: endpoints,
    },
    ResourceSource {
        name: "KubePrismEndpoints.kubernetes.talos.dev",
        proto: &[("endpoints", 1, ENDPOINTS)],
        list: |context| {
            let found = balancer(context).into_iter();
            found.map(|(_, all)| Item::new("k8s-cluster", json!({ "endpoints": all }))).collect()
        },
    },
    ResourceSource {
        name: "KubePrismConfigs.kubernetes.talos.dev",
        proto: &[("host", 1, Form::Text), ("port", 2, Form::Number), ("endpoints", 3, ENDPOINTS)],
        list: |context| {
            let found = balancer(context).into_iter();
            let spec = |(port, all)| json!({ "host": "127.0.0.1", "port": port, "endpoints": all });
            found.map(|found| Item::new("k8s-loadbalancer-config", spec(found))).collect()
        },
    },
    ResourceSource {
        name: "KubePrismStatuses.kubernetes.talos.dev",
        proto: &[("host", 1, Form::Text), ("healthy", 2, Form::Number)],
        list: |context| {
            let is_healthy = !api_servers(context).is_empty();
            let found = balancer(context).into_iter();
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

/// Addresses of the control planes that discovery found.
fn members(context: &ResourceContext<'_>) -> Vec<IpAddr> {
    let members = known_members(context).into_iter().filter(|member| member.is_control_plane());
    let mut addresses: Vec<IpAddr> =
        members.flat_map(|member| member.network.addresses().collect::<Vec<_>>()).collect();
    addresses.sort_unstable();
    addresses
}

/// Addresses of the running API servers. The endpoints of the service `kubernetes` contain the same addresses.
fn api_servers(context: &ResourceContext<'_>) -> Vec<IpAddr> {
    let Some(config) = &context.node.config else { return vec![] };
    let own = context.node.etcd.and_then(|part| context.talos.etcds.get(&part.cluster));
    let mut all = context.talos.etcds.values();
    let is_own = |id: &String| *id == config.facts.cluster_id;
    let Some(cluster) = own.or_else(|| all.find(|etcd| is_own(&etcd.talos_cluster))) else {
        return vec![];
    };
    let serving = cluster.api_servers.keys().filter_map(|vmid| context.talos.nodes.get(vmid));
    let reached = serving.filter(|other| {
        other.vmid == context.node.vmid || context.talos.is_connected(context.node.vmid, other.vmid)
    });
    let mut addresses: Vec<IpAddr> =
        reached.filter_map(crate::talos_state::Node::node_address).collect();
    addresses.sort_unstable();
    addresses
}

fn endpoints(context: &ResourceContext<'_>) -> Vec<Item> {
    let Some(config) = &context.node.config else { return vec![] };
    let has_hosts = context.node.version.is_at_least(13);
    let item = |id: &str, addresses: Vec<IpAddr>| {
        let addresses: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
        let mut spec = json!({ "addresses": addresses });
        if has_hosts {
            spec["hosts"] = json!([]);
        }
        Item::new(id, spec)
    };
    let mut items =
        vec![item("discovery", members(context)).owned_by("cluster.EndpointController")];
    // Only an address creates a resource. Talos creates none for a host name that it cannot resolve, and the lab has no DNS
    // names of clusters.
    let host = config.facts.endpoint.as_ref().and_then(|(host, _)| host.parse().ok());
    items.extend(
        host.map(|host| item("controlplane", vec![host]).owned_by("k8s.StaticEndpointController")),
    );
    let serving = api_servers(context);
    if !serving.is_empty() {
        items.push(item("kube-apiserver", serving).owned_by("k8s.EndpointController"));
    }
    items
}

/// Port of KubePrism, and the API servers that it forwards to.
fn balancer(context: &ResourceContext<'_>) -> Option<(u64, Vec<Value>)> {
    let config = context.node.config.as_ref()?;
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
    all.extend(members(context).iter().map(|address| endpoint(&address.to_string(), 6443)));
    Some((port, all))
}

/// Port of the API server on a control plane.
pub(super) fn local_port(config: &AppliedConfig) -> u64 {
    config.value("cluster.controlPlane.localAPIServerPort").as_u64().unwrap_or(6443)
}
