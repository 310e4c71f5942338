//! Names of the objects in the lab of an inventory. They are used to reject faults for unknown objects.

use std::collections::BTreeSet;
use std::net::IpAddr;

use talmox_lab::{Known, Scenario};
use talmox_model::value::Boot;
use talmox_model::{Cluster, Node};

/// Objects that faults may name. A field is `None` if its values are unknown, such as the vmids that Proxmox assigns.
pub(crate) fn fault_targets(cluster: &Cluster, scenario: &Scenario) -> Known {
    let nodes = || cluster.nodes.iter();
    let is_fixed = |node: &Node| *node.settings().system.boot.required() != Boot::Template;
    let vmids: Option<BTreeSet<u32>> =
        nodes().map(|node| node.entry.vmid.get().map(|vmid| vmid.get())).collect();
    let contacts: Option<BTreeSet<IpAddr>> = nodes().map(Node::contact).collect();
    let addresses = contacts.map(|contacts| {
        let own = nodes().filter_map(Node::address);
        contacts.into_iter().chain(own).chain(cluster.file.network.vip.get().copied()).collect()
    });
    Known {
        hosts: Some(scenario.hosts()),
        // The vmid of a template is unknown until the template is created.
        vmids: vmids.filter(|_| nodes().all(is_fixed)),
        nodes: Some(nodes().map(|node| node.name.value.as_str().to_owned()).collect()),
        addresses,
    }
}
