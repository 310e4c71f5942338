//! Cleanup at the end of a failed run: an uploaded config is overwritten if the VM that needs it was never created.
//!
//! The step that overwrites the upload depends on the creation of the VM. If a step before the creation fails, such as the drain of
//! a node that is replaced, both are skipped, and the config with its secrets would stay on the storage.

use std::sync::Arc;

use talmox_plan::plan::{Action, Step};

/// Whether a skipped step may have to run at the end of the run.
pub(super) fn is_cleanup(step: &Step) -> bool {
    matches!(step.action, Action::ScrubCidata(_))
}

/// Whether the upload that this step overwrites was made, and the step that creates the VM was skipped. An upload that a creation
/// may have started to read is left to the next run. Steps are named by their index.
pub(super) fn is_needed(
    steps: &[Arc<Step>],
    scrub: usize,
    is_done: impl Fn(usize) -> bool,
    is_skipped: impl Fn(usize) -> bool,
) -> bool {
    let Action::ScrubCidata(action) = &steps[scrub].action else { return false };
    let node = &steps[scrub].node;
    let (mut is_uploaded, mut is_not_created) = (false, false);
    for (at, step) in steps.iter().enumerate() {
        match &step.action {
            Action::UploadCidata(upload) => {
                let is_own = upload.volume == action.volume && upload.host == action.host;
                is_uploaded |= is_own && is_done(at);
            }
            Action::CreateVm(_) | Action::CloneVm(_) => {
                let is_own = node.is_some() && step.node == *node;
                is_not_created |= is_own && is_skipped(at);
            }
            _ => {}
        }
    }
    is_uploaded && is_not_created
}
