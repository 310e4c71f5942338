//! `PUT /nodes/{node}/qemu/{vmid}/sendkey`: key presses on the console of a VM.

use super::vmid;
use crate::ApiError;
use crate::call::{Call, Outcome, Reply};
use crate::lock::CALL_LOCK_TIMEOUT;

/// Checks the request, and ignores the key because a simulated guest has no keyboard. The VM must be running.
pub(super) async fn send_key(call: &Call) -> Outcome {
    let skip_lock = call.params.flag("skiplock").unwrap_or_default();
    if skip_lock && !call.caller.is_root() {
        return Err(ApiError::parameter("skiplock", "Only root may use this option."));
    }
    let vmid = vmid(call);
    let lock = call.site.locks.vm(vmid, CALL_LOCK_TIMEOUT).await;
    let _guard = lock.map_err(|timeout| ApiError::failed(timeout.to_string()))?;
    if !call.pve_state().vm(&call.node, vmid)?.is_running() {
        return Err(ApiError::failed(format!("VM {vmid} not running")));
    }
    Ok(Reply::NULL)
}
