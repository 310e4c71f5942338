//! Conversion of errors of Proxmox into errors of steps.

use talmox_pve::PveError;
use talmox_pve::error::NotSent;

use crate::step::{StepCode, StepError};

/// Hint if no host answers.
pub(in crate::step) const UNANSWERED: &str = "the host at `proxmox.endpoint` is down or unreachable: bring it up, or \
    add further hosts there; then run the same command to resume";

/// Error of the operation `doing`, such as `create VM 300 on pve1`.
///
/// Errors that may pass are retried, even if Proxmox may have made the change. That is safe, because each attempt of a step
/// starts with a read, and detects changes that earlier attempts made.
pub(super) fn of(doing: &str, error: PveError) -> StepError {
    let text = match error.silent_node() {
        Some(host) => format!("{doing}: the host {host} is down or unreachable"),
        None if error.is_unanswered() => format!("{doing}: Proxmox does not answer"),
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
        // A retry does not make a certificate trusted.
        PveError::NotSent {
            source: NotSent::Tls { .. } | NotSent::Untrusted { .. } | NotSent::NotPinned { .. },
            ..
        } => error.is_unanswered(),
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
        Some("check the API token: Proxmox does not know it")
    } else if error.is_permission() {
        Some(
            "the API token lacks a right: run `talmox check --live` to see which one, and how to grant it",
        )
    } else if error.is_full() {
        Some("free space on the storage, or use another one in the inventory")
    } else if error.is_lock_timeout() {
        Some("check which task on the host holds the lock; then run the same command to resume")
    } else if error.is_node_scoped() {
        Some(
            "bring the host up, and check that the other hosts reach it; then run the same command to resume",
        )
    } else if error.is_unanswered() {
        Some(UNANSWERED)
    } else {
        None
    }
}
