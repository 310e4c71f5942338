//! Keys that are pressed at a VM's console.

use super::vmid;
use crate::Refusal;
use crate::call::{Call, Outcome, Reply};
use crate::lock::CALL_PATIENCE;

/// Nothing in a simulated guest looks at its keyboard, but it must be running to have one.
pub(super) async fn press(call: &Call) -> Outcome {
    let skip_lock = call.params.flag("skiplock").unwrap_or_default();
    if skip_lock && !call.caller.is_root() {
        return Err(Refusal::parameter("skiplock", "Only root may use this option."));
    }
    let vmid = vmid(call);
    let lock = call.site.locks.vm(vmid, CALL_PATIENCE).await;
    let _guard = lock.map_err(|timeout| Refusal::failed(timeout.to_string()))?;
    if !call.world().vm(&call.node, vmid)?.is_running() {
        return Err(Refusal::failed(format!("VM {vmid} not running")));
    }
    Ok(Reply::NULL)
}
