//! Result of planning a VM. The planning of its node uses this result.

use crate::plan::StepId;

/// Result of planning the VM of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct VmPlan {
    /// The step after which the VM runs. None if the VM already runs.
    pub(super) runs_after: Option<StepId>,
    /// Whether the VM has never been started.
    pub(super) is_fresh: bool,
    /// Whether this run creates the VM. If an earlier run left the VM unfinished, a user may have started it since.
    pub(super) is_created: bool,
    /// Whether further steps of the node can be planned.
    pub(super) is_sound: bool,
}
