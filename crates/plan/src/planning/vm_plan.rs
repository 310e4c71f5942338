//! Result of planning a VM, for the steps of its node.

use crate::plan::StepId;

/// Result of planning the VM of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct VmPlan {
    /// The step after which the VM runs. None if it runs already.
    pub(super) runs_after: Option<StepId>,
    /// Whether the VM has never been started.
    pub(super) is_fresh: bool,
    /// Whether this run creates the VM. If an earlier run left the VM unfinished, a user may have started it since.
    pub(super) is_created: bool,
    /// Whether the plan can contain the further steps of the node.
    pub(super) is_sound: bool,
}
