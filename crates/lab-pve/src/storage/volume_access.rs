use super::super::ApiError;
use super::super::pve_state::{Caller, ContentType, PveState, VolumeId};
use super::volume::name_of;

/// Checks whether the caller may read a volume. With `vmid`, the caller reads the volume on behalf of that VM.
pub(crate) fn check_access(
    pve_state: &PveState,
    caller: &Caller,
    vmid: Option<u32>,
    volume: &VolumeId,
) -> Result<(), ApiError> {
    let name = name_of(pve_state, volume)?;
    let storage = format!("/storage/{}", volume.storage);
    if pve_state.allowed(caller, &storage, &["Datastore.Allocate"]) {
        return Ok(());
    }
    match (name.content, name.owner) {
        (ContentType::Iso | ContentType::Vztmpl | ContentType::Import, _) => {
            pve_state.check_any(caller, &storage, &["Datastore.AllocateSpace", "Datastore.Audit"])
        }
        (_, Some(owner)) if vmid == Some(owner) => Ok(()),
        (ContentType::Backup, Some(owner)) => {
            pve_state.check(caller, &storage, &["Datastore.AllocateSpace"])?;
            pve_state.check(caller, &format!("/vms/{owner}"), &["VM.Backup"])
        }
        (ContentType::Images | ContentType::Rootdir, Some(owner)) => {
            pve_state.check(caller, &storage, &["Datastore.Audit"])?;
            pve_state.check(caller, &format!("/vms/{owner}"), &["VM.Config.Disk"])
        }
        _ => Err(ApiError::failed(format!("missing privileges to access {volume}"))),
    }
}
