//! etcd resources of the node.

use serde_json::{Value, json};

use super::control_plane::component;
use super::kubelet::extra_args;
use super::proto::{Field, Form};
use super::{Item, ResourceContext, ResourceSource};
use crate::config::{AppliedConfig, prefix};
use crate::etcd::version;
use crate::talos_state::Node;

const SPEC: &[Field] = &[
    ("name", 1, Form::Text),
    ("advertisedAddresses", 2, Form::Each(&Form::Address)),
    ("image", 3, Form::Text),
    ("listenPeerAddresses", 5, Form::Each(&Form::Address)),
    ("listenClientAddresses", 6, Form::Each(&Form::Address)),
];
const CONFIG: &[Field] = &[
    ("advertiseValidSubnets", 1, Form::Each(&Form::Text)),
    ("advertiseExcludeSubnets", 2, Form::Each(&Form::Text)),
    ("image", 3, Form::Text),
    ("listenValidSubnets", 5, Form::Each(&Form::Text)),
    ("listenExcludeSubnets", 6, Form::Each(&Form::Text)),
];

pub(super) const SOURCES: &[ResourceSource] = &[
    ResourceSource {
        name: "EtcdConfigs.etcd.talos.dev",
        proto: CONFIG,
        list: |context| component(context, "etcd", config),
    },
    ResourceSource {
        name: "PKIStatuses.etcd.talos.dev",
        proto: &[("ready", 1, Form::Number), ("version", 2, Form::Text)],
        list: |context| {
            let is_member = context.node.is_control_plane();
            let spec = json!({ "ready": true, "version": "1" });
            is_member.then(|| Item::new("etcd", spec)).into_iter().collect()
        },
    },
    ResourceSource {
        name: "EtcdMembers.etcd.talos.dev",
        proto: &[("memberID", 1, Form::Text)],
        list: |context| {
            let part = context.node.etcd.iter();
            part.map(|part| {
                Item::new("local", json!({ "memberID": format!("{:016x}", part.member) }))
            })
            .collect()
        },
    },
    ResourceSource { name: "EtcdSpecs.etcd.talos.dev", proto: SPEC, list: spec },
];

fn image(node: &Node) -> String {
    let minor = node.version.minor;
    let registry =
        if minor >= 12 { "registry.k8s.io/etcd" } else { "gcr.io/etcd-development/etcd" };
    let tag = version(&node.version);
    format!("{registry}:v{tag}")
}

fn image_of(context: &ResourceContext<'_>, config: &AppliedConfig) -> String {
    let own = config.value("cluster.etcd.image");
    own.as_str().map_or_else(|| image(context.node), str::to_owned)
}

fn config(context: &ResourceContext<'_>, config: &AppliedConfig) -> Value {
    let listen = config.value("cluster.etcd.listenSubnets");
    // A virtual IP must not be the address of a member.
    let virtual_ips: Vec<String> = config.facts.vips().map(|address| address.to_string()).collect();
    let mut spec = json!({});
    if !config.facts.etcd_subnets.is_empty() {
        spec["advertiseValidSubnets"] = config.facts.etcd_subnets.clone().into();
    }
    spec["advertiseExcludeSubnets"] = virtual_ips.into();
    if !listen.is_null() {
        spec["listenValidSubnets"] = listen;
    }
    spec["listenExcludeSubnets"] = json!([]);
    spec["image"] = image_of(context, config).into();
    spec["extraArgs"] = extra_args(context, config, "cluster.etcd.extraArgs");
    spec
}

fn spec(context: &ResourceContext<'_>) -> Vec<Item> {
    let node = context.node;
    let Some(config) = node.config.as_ref().filter(|config| config.facts.is_control_plane) else {
        return vec![];
    };
    let Some(address) = node.etcd_address() else { return vec![] };
    let (peer, client) = listen_addresses(node, config);
    let spec = json!({
        "name": node.hostname(),
        "advertisedAddresses": [address.to_string()],
        "listenPeerAddresses": peer,
        "listenClientAddresses": client,
        "image": image_of(context, config),
        "extraArgs": extra_args(context, config, "cluster.etcd.extraArgs"),
    });
    vec![Item::new("etcd", spec)]
}

/// Addresses that etcd listens on for peers and for clients. These are all addresses, unless the config restricts them.
fn listen_addresses(node: &Node, config: &AppliedConfig) -> (Vec<String>, Vec<String>) {
    let is_v6 = node.network.addresses().any(|address| address.is_ipv6());
    let (all, loopback) = if is_v6 { ("::", "::1") } else { ("0.0.0.0", "127.0.0.1") };
    let subnets = config.value("cluster.etcd.listenSubnets");
    let subnets = subnets.as_array().into_iter().flatten();
    let subnets: Vec<_> = subnets.filter_map(|subnet| prefix(subnet.as_str()?)).collect();
    if subnets.is_empty() {
        return (vec![all.to_owned()], vec![all.to_owned()]);
    }
    let own = node.network.addresses();
    let own = own.filter(|address| subnets.iter().any(|subnet| subnet.contains(*address)));
    let peer: Vec<String> = own.map(|address| address.to_string()).collect();
    let client = [vec![loopback.to_owned()], peer.clone()].concat();
    (peer, client)
}
