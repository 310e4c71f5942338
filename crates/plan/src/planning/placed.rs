//! The vmid and host of the VM of each node, and the observed state of that VM.

use std::collections::BTreeSet;

use talmox_pve_types::config::VmConfig;
use talmox_pve_types::id::{Upid, VmId};
use talmox_talos_config::machine::Expected;

use crate::desired::DesiredNode;
use crate::observed::VmSeen;
use crate::ownership::Marker;
use crate::plan::{Finding, OwnVm, TalosNode};

/// Maximum number of network cards of a VM.
pub(super) const CARDS: u8 = 32;

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
    /// A foreign VM uses the vmid, or a finding prevents the plan from using the VM.
    Blocked,
}

/// An owned VM, as observed.
#[derive(Clone, Debug)]
pub struct ObservedVm<'a> {
    pub seen: &'a VmSeen,
    pub config: &'a VmConfig,
    pub marker: Marker,
}

/// A VM with the UUID of a node whose notes do not prove that it is the VM of the node.
#[derive(Clone, Debug)]
pub struct UnmarkedVm {
    pub own: OwnVm,
    /// Whether the UUID, the name and the tags prove that it is the VM of the node, so that its marker can be restored.
    pub is_proven: bool,
}

/// The VMs of all nodes.
#[derive(Clone, Debug, Default)]
pub struct Placements<'a> {
    /// The nodes with their VMs, in the order of the inventory. Nodes that cannot be placed are omitted.
    pub nodes: Vec<Placed<'a>>,
    /// Orphans: owned VMs whose nodes are not in the inventory.
    pub removed: Vec<(OwnVm, ObservedVm<'a>)>,
    /// Owned VMs of nodes that are not in the inventory, whose tags or notes name another cluster.
    pub shared: Vec<(OwnVm, ObservedVm<'a>)>,
    /// VMs with the UUID of a node and without its marker. Their nodes are not among `nodes`.
    pub unmarked: Vec<UnmarkedVm>,
    /// Findings about owned VMs.
    pub troubles: Vec<Finding>,
    /// Findings about nodes that cannot be placed, or whose vmid is not free.
    pub findings: Vec<Finding>,
    /// Vmids that seem to be free but were not checked.
    pub unasked: BTreeSet<VmId>,
}

impl Placed<'_> {
    /// The identity that the machine must report. A network card that the plan adds to an existing VM is not expected yet.
    fn expected_machine(&self) -> Expected {
        let mut expected = self.node.machine();
        if let VmPresence::Owned(found) = &self.state {
            let observed: Vec<String> = (0..CARDS)
                .filter_map(|index| Some(found.config.net(index)?.mac?.lower_case()))
                .collect();
            let known = |mac: &String| observed.iter().any(|one| one.eq_ignore_ascii_case(mac));
            if expected.macs.iter().any(known) {
                expected.macs.retain(known);
            }
        }
        expected
    }

    pub(super) fn talos_node(&self) -> TalosNode {
        TalosNode {
            name: self.node.name.clone(),
            own: self.own.clone(),
            contact: self.node.contact,
            expected: self.expected_machine(),
            is_control_plane: self.node.is_control_plane,
        }
    }
}
