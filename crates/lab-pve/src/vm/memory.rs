//! Options `memory` and `balloon`.

use crate::ApiError;
use crate::pve_state::{Config, PveState, Vm};
use crate::schema::{self, FormatName};

/// Memory of a VM in MiB.
pub(crate) fn mib(pve_state: &PveState, memory: Option<&str>) -> u64 {
    let format = schema::format(pve_state.release, FormatName::Memory);
    let current = memory.and_then(|memory| format.parse(memory).ok()?.number("current"));
    // The value is limited, because a config may contain any number. The number of bytes must not overflow.
    current.and_then(|mib| u64::try_from(mib).ok()).unwrap_or(512).min(1 << 32)
}

/// Rejects a `balloon` that is larger than the memory. Both options are checked, even if only one of them changes.
pub(crate) fn check_balloon(pve_state: &PveState, vm: &Vm, set: &Config) -> Result<(), ApiError> {
    if !set.contains_key("memory") && !set.contains_key("balloon") {
        return Ok(());
    }
    let value = |key: &str| {
        set.get(key).or_else(|| vm.pending.get(key)).or_else(|| vm.config.get(key)).cloned()
    };
    let memory = mib(pve_state, value("memory").as_deref());
    let balloon =
        value("balloon").and_then(|balloon| balloon.parse::<u64>().ok()).unwrap_or_default();
    if balloon > memory {
        let text = "balloon value too large (must be smaller than assigned memory)";
        return Err(ApiError::failed(text));
    }
    Ok(())
}
