//! `nodes.json`: input of render scripts for Talos configs.

use serde_json::{Map, Value as Json, json};
use talmox_model::{Cluster, Node};

pub(super) const FILE_NAME: &str = "nodes.json";

pub(super) fn export(cluster: &Cluster) -> Json {
    let login_server = cluster.file.tailscale.login_server.get();
    json!({
        "control_plane_vip": cluster.file.network.vip.get().map(ToString::to_string),
        "headscale_login_server": login_server.map(ToString::to_string),
        "controlplanes": cluster.controlplanes().map(node).collect::<Vec<_>>(),
        "workers": cluster.workers().map(node).collect::<Vec<_>>(),
    })
}

/// Entry of a node, with its DHCP lease, its address, or both.
fn node(node: &Node) -> Json {
    let mut out = Map::new();
    out.insert("name".to_owned(), json!(node.name.value.as_str()));
    if let Some(lease) = node.entry.dhcp.get() {
        out.insert("dhcp".to_owned(), json!(lease.to_string()));
    }
    if let Some(address) = node.address() {
        out.insert("address".to_owned(), json!(address.to_string()));
    }
    Json::Object(out)
}
