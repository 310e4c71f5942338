//! Cluster resources: members, affiliates and the identity of the node.

use serde_json::{Value, json};

use super::config::MACHINE_TYPES;
use super::proto::{Field, Form};
use super::{Item, ResourceContext, ResourceSource};
use crate::talos_state::Node;

const CONTROL_PLANE: &[Field] = &[("port", 1, Form::Number)];
const MEMBER: &[Field] = &[
    ("nodeId", 1, Form::Text),
    ("addresses", 2, Form::Each(&Form::Address)),
    ("hostname", 3, Form::Text),
    ("machineType", 4, Form::Enum(MACHINE_TYPES)),
    ("operatingSystem", 5, Form::Text),
    ("controlPlane", 6, Form::Message(CONTROL_PLANE)),
];
const AFFILIATE: &[Field] = &[
    ("nodeId", 1, Form::Text),
    ("addresses", 2, Form::Each(&Form::Address)),
    ("hostname", 3, Form::Text),
    ("nodename", 4, Form::Text),
    ("operatingSystem", 5, Form::Text),
    ("machineType", 6, Form::Enum(MACHINE_TYPES)),
    ("controlPlane", 8, Form::Message(CONTROL_PLANE)),
];

pub(super) const SOURCES: &[ResourceSource] = &[
    ResourceSource {
        name: "Members.cluster.talos.dev",
        proto: MEMBER,
        list: |context| {
            let members = known_members(context).into_iter();
            members.map(|node| Item::new(node.hostname(), described(node, false))).collect()
        },
    },
    ResourceSource {
        name: "Affiliates.cluster.talos.dev",
        proto: AFFILIATE,
        list: |context| {
            let members = known_members(context).into_iter();
            members.map(|node| Item::new(node_id(node), described(node, true))).collect()
        },
    },
    ResourceSource {
        name: "Identities.cluster.talos.dev",
        proto: &[("nodeId", 1, Form::Text)],
        list: |context| {
            if context.node.config.is_none() {
                return vec![];
            }
            vec![Item::new("local", json!({ "nodeId": node_id(context.node) }))]
        },
    },
    ResourceSource {
        name: "Infos.cluster.talos.dev",
        proto: &[("clusterId", 1, Form::Text), ("clusterName", 2, Form::Text)],
        list: |context| {
            let config = context.node.config.iter();
            config
                .map(|config| {
                    let facts = &config.facts;
                    let spec =
                        json!({ "clusterId": facts.cluster_id, "clusterName": facts.cluster_name });
                    Item::new("current", spec)
                })
                .collect()
        },
    },
];

/// Members that this node lists: the node itself, and the nodes that discovery found. The list is empty if discovery is
/// disabled.
pub(super) fn known_members<'a>(context: &ResourceContext<'a>) -> Vec<&'a Node> {
    let node = context.node;
    let has_discovery = node.config.as_ref().is_some_and(|config| config.facts.has_discovery);
    if !has_discovery {
        return vec![];
    }
    let key = |node: &'a Node| {
        let facts = &node.config.as_ref()?.facts;
        facts.has_discovery.then_some((&facts.cluster_id, &facts.cluster_secret))
    };
    let all = context.talos.nodes.values().filter(|other| key(other) == key(node));
    all.filter(|other| other.vmid == node.vmid || context.talos.is_connected(node.vmid, other.vmid))
        .collect()
}

/// Identity of a node. A real node generates it once and stores it on STATE. The lab derives it from the UUID of the machine.
pub(super) fn identity(node: &Node) -> Vec<u8> {
    let digest =
        aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, node.hardware.uuid.as_bytes());
    digest.as_ref().to_vec()
}

pub(super) fn node_id(node: &Node) -> String {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    URL_SAFE_NO_PAD.encode(identity(node))
}

fn described(node: &Node, is_affiliate: bool) -> Value {
    let addresses: Vec<String> = node.network.addresses().map(|a| a.to_string()).collect();
    let kind = if node.is_control_plane() { "controlplane" } else { "worker" };
    let mut spec = json!({
        "nodeId": node_id(node), "addresses": addresses, "hostname": node.hostname(),
    });
    if is_affiliate {
        spec["nodename"] = node.hostname().into();
    }
    let system = format!("Talos ({})", node.version);
    // In `Affiliate`, these two fields are swapped.
    if is_affiliate {
        spec["operatingSystem"] = system.as_str().into();
        spec["machineType"] = kind.into();
    } else {
        spec["machineType"] = kind.into();
        spec["operatingSystem"] = system.as_str().into();
    }
    if node.is_control_plane() {
        spec["controlPlane"] = json!({ "port": 6443 });
    }
    spec
}
