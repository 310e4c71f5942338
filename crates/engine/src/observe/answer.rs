//! Conversion of answers of Proxmox into observed state.

use talmox_plan::observed::{Answer, Unobserved};
use talmox_pve::PveError;

/// The answer, or whether the object is absent, unreadable or unreachable.
pub(super) fn answer<T>(answer: Result<T, PveError>) -> Answer<T> {
    answer.map_err(|error| unobserved(&error))
}

pub(super) fn unobserved(error: &PveError) -> Unobserved {
    let reason = error.to_string();
    if error.is_unanswered() || error.is_node_scoped() {
        Unobserved::Unreachable(reason)
    } else if error.is_not_found() && !error.is_vm_missing() {
        Unobserved::Absent(reason)
    } else {
        // A VM that is missing on one host may have moved to another one.
        Unobserved::Unreadable(reason)
    }
}
