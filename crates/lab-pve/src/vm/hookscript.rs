//! Hook script of a VM: a snippet that the host runs when the VM starts and stops.
//!
//! The lab does not run hook scripts, but it makes the checks that Proxmox makes before it runs a script.

use crate::ApiError;
use crate::storage;
use crate::world::{ContentType, VolumeId, World};

/// Checks that the host can run the script. The content types that are configured for the storage do not matter.
pub(crate) fn check(world: &World, node: &str, script: &str) -> Result<(), ApiError> {
    let malformed = || ApiError::failed(format!("unable to parse volume ID '{script}'"));
    let volume = VolumeId::parse(script).ok_or_else(malformed)?;
    if storage::name_of(world, &volume)?.content != ContentType::Snippets {
        return Err(ApiError::failed(format!("'{script}' is not in the snippets directory")));
    }
    let found = storage::find(world, node, &volume)?;
    let found =
        found.ok_or_else(|| ApiError::failed(format!("script '{script}' does not exist")))?;
    if !found.executable {
        return Err(ApiError::failed(format!("script '{script}' is not executable")));
    }
    Ok(())
}

/// Checks the hook script before a start. The error has the text that Proxmox uses for a failed script.
pub(crate) fn check_start(world: &World, node: &str, vmid: u32) -> Result<(), ApiError> {
    let Some(script) = world.vm(node, vmid)?.config.get("hookscript") else { return Ok(()) };
    check(world, node, script).map_err(|error| {
        ApiError::failed(format!("hookscript error for {vmid} on pre-start: {error}"))
    })
}
