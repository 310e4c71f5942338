//! The hook script of a VM: a snippet that the host runs when the VM starts and stops.
//!
//! The lab runs no scripts. It checks what Proxmox checks before it runs one.

use crate::Refusal;
use crate::storage;
use crate::world::{ContentType, VolumeId, World};

/// Checks that the host can run the script. The content types that the storage is configured for do
/// not matter.
pub(crate) fn check(world: &World, node: &str, script: &str) -> Result<(), Refusal> {
    let malformed = || Refusal::failed(format!("unable to parse volume ID '{script}'"));
    let volume = VolumeId::parse(script).ok_or_else(malformed)?;
    if storage::name_of(world, &volume)?.content != ContentType::Snippets {
        return Err(Refusal::failed(format!("'{script}' is not in the snippets directory")));
    }
    let found = storage::find(world, node, &volume)?;
    let found =
        found.ok_or_else(|| Refusal::failed(format!("script '{script}' does not exist")))?;
    if !found.executable {
        return Err(Refusal::failed(format!("script '{script}' is not executable")));
    }
    Ok(())
}

/// The check before a start, which fails with the script.
pub(crate) fn check_start(world: &World, node: &str, vmid: u32) -> Result<(), Refusal> {
    let Some(script) = world.vm(node, vmid)?.config.get("hookscript") else { return Ok(()) };
    check(world, node, script).map_err(|refusal| {
        Refusal::failed(format!("hookscript error for {vmid} on pre-start: {refusal}"))
    })
}
