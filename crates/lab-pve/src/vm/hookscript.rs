//! Hook script of a VM: a snippet that the host runs when the VM starts and stops.
//!
//! The lab does not run hook scripts, but it makes the checks that Proxmox makes before it runs a script.

use crate::ApiError;
use crate::pve_state::{ContentType, PveState, VolumeId};
use crate::storage;

/// Checks that the host can run the script. The content types that are configured for the storage do not matter.
pub(crate) fn check(pve_state: &PveState, node: &str, script: &str) -> Result<(), ApiError> {
    let malformed = || ApiError::failed(format!("unable to parse volume ID '{script}'"));
    let volume = VolumeId::parse(script).ok_or_else(malformed)?;
    if storage::name_of(pve_state, &volume)?.content != ContentType::Snippets {
        return Err(ApiError::failed(format!("'{script}' is not in the snippets directory")));
    }
    let found = storage::find(pve_state, node, &volume)?;
    let found =
        found.ok_or_else(|| ApiError::failed(format!("script '{script}' does not exist")))?;
    if !found.executable {
        return Err(ApiError::failed(format!("script '{script}' is not executable")));
    }
    Ok(())
}

/// Checks the hook script before a start. The error has the text that Proxmox uses for a failed script.
pub(crate) fn check_start(pve_state: &PveState, node: &str, vmid: u32) -> Result<(), ApiError> {
    let Some(script) = pve_state.vm(node, vmid)?.config.get("hookscript") else { return Ok(()) };
    check(pve_state, node, script).map_err(|error| {
        ApiError::failed(format!("hookscript error for {vmid} on pre-start: {error}"))
    })
}
