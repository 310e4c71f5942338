//! Step: remove a control plane from etcd.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;
use super::talos_node::TalosNode;

/// Removes the etcd member of a control plane, if etcd keeps its quorum without that member. A node that answers is asked to
/// leave etcd. A member whose node does not answer is removed by its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveMember {
    /// The name of the member.
    pub member: String,
    /// The node of the member. None if the VM of the node does not exist.
    pub node: Option<TalosNode>,
    /// The control planes that stay in the cluster.
    pub others: Vec<TalosNode>,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for RemoveMember {
    const KIND: &'static str = "remove-member";
    // A member is removed only together with its VM, or before its lost VM is created again.
    const PART: Option<Part> = Some(Part::Vms);
    const PHASE: RunPhase = RunPhase::Change;
    const NODE_EFFECT: NodeEffect = NodeEffect::Interrupts;

    fn privileges(&self) -> Vec<Privilege<'_>> {
        vec![]
    }

    fn burden(&self) -> Burden {
        Burden { quorum: true, ..Burden::default() }
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}
