use super::super::ApiError;
use super::super::world::{Caller, ContentType, VolumeId, World};
use super::volume::name_of;

/// Checks whether the caller may read a volume. With `vmid`, the caller reads the volume on behalf of that VM.
pub(crate) fn check_access(
    world: &World,
    caller: &Caller,
    vmid: Option<u32>,
    volume: &VolumeId,
) -> Result<(), ApiError> {
    let name = name_of(world, volume)?;
    let storage = format!("/storage/{}", volume.storage);
    if world.allowed(caller, &storage, &["Datastore.Allocate"]) {
        return Ok(());
    }
    match (name.content, name.owner) {
        (ContentType::Iso | ContentType::Vztmpl | ContentType::Import, _) => {
            world.check_any(caller, &storage, &["Datastore.AllocateSpace", "Datastore.Audit"])
        }
        (_, Some(owner)) if vmid == Some(owner) => Ok(()),
        (ContentType::Backup, Some(owner)) => {
            world.check(caller, &storage, &["Datastore.AllocateSpace"])?;
            world.check(caller, &format!("/vms/{owner}"), &["VM.Backup"])
        }
        (ContentType::Images | ContentType::Rootdir, Some(owner)) => {
            world.check(caller, &storage, &["Datastore.Audit"])?;
            world.check(caller, &format!("/vms/{owner}"), &["VM.Config.Disk"])
        }
        _ => Err(ApiError::failed(format!("missing privileges to access {volume}"))),
    }
}
