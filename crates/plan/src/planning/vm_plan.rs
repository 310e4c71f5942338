//! Result of planning a VM, for the steps of its node.

use crate::plan::StepId;

/// Result of planning the VM of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct VmPlan {
    /// The step after which it runs; none if it runs.
    pub(super) runs_after: Option<StepId>,
    /// Whether it has never been started.
    pub(super) is_fresh: bool,
    /// Whether this run creates it. A VM that an earlier run left unfinished may have been started by hand since.
    pub(super) is_created: bool,
    /// Whether the plan can continue with its node.
    pub(super) is_sound: bool,
}
