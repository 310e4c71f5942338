//! What an error of Proxmox means for a step.

use talmox_pve::PveError;
use talmox_pve::error::NotSent;

use crate::step::{StepCode, StepError};

/// What can be done where no host answers.
pub(in crate::step) const UNANSWERED: &str = "the host at `proxmox.endpoint` is down, or cut off: bring it up, or \
    name further hosts there; the same command goes on then";

/// An error that came up while `doing`, such as `create VM 300 on pve1`.
///
/// Running a step again begins with a look, so whatever may have been done is found. Only what the
/// server decided for good is not tried again.
pub(super) fn of(doing: &str, error: PveError) -> StepError {
    let text = match error.silent_node() {
        Some(host) => format!("{doing}: the host {host} is down, or cut off"),
        None if error.is_unanswered() => format!("{doing}: no host answers for Proxmox"),
        None => doing.to_owned(),
    };
    let code = StepCode::of_proxmox(&error);
    let plain = if error.is_lock_timeout() {
        StepError::locked(code, text)
    } else if may_pass(&error) {
        StepError::retry(code, text)
    } else {
        StepError::failed(code, text)
    };
    let plain = match hint(&error) {
        Some(hint) => plain.hint(hint),
        None => plain,
    };
    plain.caused_by(error)
}

fn may_pass(error: &PveError) -> bool {
    match error {
        // A certificate that is not trusted stays so.
        PveError::NotSent { source: NotSent::Tls { .. } | NotSent::NotPinned { .. }, .. } => {
            error.is_unanswered()
        }
        PveError::NotSent { .. } => !error.is_auth(),
        PveError::MaybeApplied { .. } => true,
        PveError::Rejected(_) | PveError::TaskFailed(_) => {
            error.is_locked()
                || error.is_digest_mismatch()
                || error.is_timeout()
                || error.is_task_unstarted()
        }
    }
}

fn hint(error: &PveError) -> Option<&'static str> {
    if error.is_auth() {
        Some("check the API token: it is not known, or no longer")
    } else if error.is_permission() {
        Some("the API token lacks a right: `talmox check --live` tells which, and how to grant it")
    } else if error.is_full() {
        Some("make room on the storage, or choose another one in the inventory")
    } else if error.is_lock_timeout() {
        Some("see which task on the host holds the lock for so long; the same command goes on then")
    } else if error.is_node_scoped() {
        Some("bring the host up, and see that the others reach it; the same command goes on then")
    } else if error.is_unanswered() {
        Some(UNANSWERED)
    } else {
        None
    }
}
