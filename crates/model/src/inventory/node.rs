//! Nodes, and the settings that a node, a class, a role and `machine` have in common.

use std::net::IpAddr;

use super::{Hardware, IgnoredDifference, KubernetesNode, Placement, System};
use crate::language::{Chain, OneOrMany, Setting, mapping};
use crate::value::{ClassName, HostAddress, MacAddress, NodeName, Uuid, VmId};

mapping! {
    /// Settings that a node, a class, a role and `machine` have in common. Precedence, weakest
    /// first: built-in, defaults.yaml, cluster.yaml, role, class, node. Mappings merge, lists
    /// replace; extensions and tags are combined, patches and `ignore` append. `null` removes the value, the list
    /// or the table entry of a weaker layer.
    called "the settings of machines"
    pub struct Settings {
        /// Differences that are accepted, with the reason: no run changes them; appended to those of weaker layers.
        ignore: Chain<IgnoredDifference>,
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
        /// vmid of the VM. Default: one of `proxmox.vmid_range` that is derived from the name.
        vmid ["vm_id"]: Setting<VmId>,
        /// MAC address of the first network card. Default: derived from the cluster's id and the node's name.
        mac ["mac_address"]: Setting<MacAddress>,
        /// SMBIOS UUID of an adopted VM. Default: derived from the cluster's id and the node's name.
        uuid: Setting<Uuid>,
        /// Class that the node takes settings from; of several classes, later ones win.
        class ["classes"]: Setting<OneOrMany<ClassName>>,
        ..settings: Settings,
        requires "name",
    }
}
