//! Summary of the network of a node.

use serde_json::json;

use super::proto::Form;
use super::{Item, ResourceContext, ResourceSource, route};

pub(super) const SOURCES: &[ResourceSource] = &[ResourceSource {
    name: "NetworkStatuses.net.talos.dev",
    proto: &[
        ("addressReady", 1, Form::Number),
        ("connectivityReady", 2, Form::Number),
        ("hostnameReady", 3, Form::Number),
        ("etcFilesReady", 4, Form::Number),
    ],
    list: status,
}];

/// As on real nodes, `connectivityReady` means that the node has a default route. It does not mean that the gateway exists.
fn status(context: &ResourceContext<'_>) -> Vec<Item> {
    let network = &context.node.network;
    let has_address = network.addresses().next().is_some();
    let spec = json!({
        "addressReady": has_address,
        "connectivityReady": route::has_default(context),
        "hostnameReady": !network.hostname.is_empty(),
        "etcFilesReady": has_address,
    });
    vec![Item::new("status", spec)]
}
