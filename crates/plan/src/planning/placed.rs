//! Where the VM of each node is or will be, and what is there now.

use std::collections::BTreeSet;

use talmox_pve_types::config::VmConfig;
use talmox_pve_types::id::{Upid, VmId};

use crate::desired::DesiredNode;
use crate::observed::VmSeen;
use crate::ownership::Marker;
use crate::plan::{Finding, OwnVm, TalosNode};

/// Hint for a node that was renamed in the inventory.
pub(crate) const RENAMED: &str = "keep the old name: a node with another name is a new node. To have both, keep the old node, \
     and give the new one a vmid and an address of its own";

/// A node, the VM that it has or will have, and the state of that VM.
#[derive(Clone, Debug)]
pub struct Placed<'a> {
    pub node: &'a DesiredNode,
    pub own: OwnVm,
    pub state: VmPresence<'a>,
}

/// State of the VM of a node.
#[derive(Clone, Debug)]
pub enum VmPresence<'a> {
    Absent,
    /// A task of this login is creating the VM.
    BeingMade(Upid),
    Owned(ObservedVm<'a>),
    /// A foreign VM, or a VM that the plan cannot continue with.
    Blocked,
}

/// An owned VM, as observed.
#[derive(Clone, Debug)]
pub struct ObservedVm<'a> {
    pub seen: &'a VmSeen,
    pub config: &'a VmConfig,
    pub marker: Marker,
}

/// The VMs of all nodes.
#[derive(Clone, Debug, Default)]
pub struct Placements<'a> {
    /// The nodes with their VMs, in the order of the inventory. Nodes that cannot be placed are omitted.
    pub nodes: Vec<Placed<'a>>,
    /// Orphans: owned VMs whose nodes are not in the inventory.
    pub removed: Vec<(OwnVm, ObservedVm<'a>)>,
    /// Owned VMs of nodes that are not in the inventory, with the name of another cluster in tags or notes.
    pub shared: Vec<(OwnVm, ObservedVm<'a>)>,
    /// Findings about owned VMs.
    pub troubles: Vec<Finding>,
    /// Why nodes cannot be placed, or why their vmid is not free.
    pub findings: Vec<Finding>,
    /// Vmids that seem to be free and were not checked.
    pub unasked: BTreeSet<VmId>,
}

impl Placed<'_> {
    pub(super) fn talos_node(&self) -> TalosNode {
        TalosNode {
            name: self.node.name.clone(),
            own: self.own.clone(),
            contact: self.node.contact,
            expected: self.node.machine(),
            is_control_plane: self.node.is_control_plane,
        }
    }
}
