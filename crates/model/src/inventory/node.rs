//! Nodes, and the settings that a node, a class, a role and `machine` have in common.

use std::net::IpAddr;

use super::{Hardware, KubernetesNode, Placement, System};
use crate::language::{OneOrMany, Setting, mapping};
use crate::value::{ClassName, HostAddress, MacAddress, NodeName, VmId};

mapping! {
    /// Settings that a node, a class, a role and `machine` have in common. Precedence, weakest
    /// first: built-in, defaults.yaml, cluster.yaml, role, class, node. Mappings merge, lists
    /// replace; extensions and tags are combined, patches append. `null` removes the value, the list
    /// or the table entry of a weaker layer.
    called "the settings of machines"
    pub struct Settings {
        ..hardware: Hardware,
        ..placement: Placement,
        ..system: System,
        ..kubernetes: KubernetesNode,
    }
}

mapping! {
    /// A node.
    called "a node"
    pub struct NodeEntry {
        /// Name of the VM, the host and the Kubernetes node.
        name: Setting<NodeName>,
        /// Address of the node. With a prefix length, the node is in that network instead of `network.subnet`.
        ip ["address"]: Setting<HostAddress>,
        /// Address of the node's DHCP lease, with `boot: dhcp`.
        dhcp: Setting<IpAddr>,
        /// vmid of the VM. Default: the first free one of `proxmox.vmid_range`.
        vmid ["vm_id"]: Setting<VmId>,
        /// MAC address of the first network card. Default: derived from the cluster's id and the node's name.
        mac ["mac_address"]: Setting<MacAddress>,
        /// Class that the node takes settings from; of several classes, later ones win.
        class ["classes"]: Setting<OneOrMany<ClassName>>,
        ..settings: Settings,
        requires "name",
    }
}
