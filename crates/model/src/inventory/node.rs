//! Nodes, and the settings that a node, a class, a role and `machine` have in common.

use std::net::IpAddr;

use super::{Hardware, KubernetesNode, Placement, System};
use crate::language::{OneOrMany, Setting, mapping};
use crate::value::{ClassName, HostAddress, MacAddress, NodeName, VmId};

mapping! {
    /// Settings that a node, a class, a role and `machine` have in common. Precedence, weakest
    /// first: built-in, defaults.yaml, cluster.yaml, role, class, node. Mappings merge, lists
    /// replace; extensions and tags add up, patches append. `null` takes a value, a list or a
    /// name of a table back.
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
        /// Its name: of the VM, the host and the Kubernetes node.
        name: Setting<NodeName>,
        /// Its address. With a prefix length it has a network of its own.
        ip ["address"]: Setting<HostAddress>,
        /// Where DHCP has put it, with `boot: dhcp`.
        dhcp: Setting<IpAddr>,
        /// Its vmid. Default: the first free one of `proxmox.vmid_range`.
        vmid ["vm_id"]: Setting<VmId>,
        /// The MAC of its first network card. Default: derived from the cluster's id and its name.
        mac ["mac_address"]: Setting<MacAddress>,
        /// The class it takes settings from; of several, later ones win.
        class ["classes"]: Setting<OneOrMany<ClassName>>,
        ..settings: Settings,
        requires "name",
    }
}
