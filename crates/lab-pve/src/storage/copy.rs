//! Copies between volumes: imports and full clones.

use super::super::ApiError;
use super::super::pve_state::{PveState, VolumeId};
use super::allocation::room;
use super::plugin_rules::path;
use super::volume::{file_size, find, name_of, path_of, volume_mut};

/// Checks an untrusted image before its import. Returns the size of the image in bytes.
pub(crate) fn check_untrusted(
    pve_state: &PveState,
    node: &str,
    id: &VolumeId,
) -> Result<u64, ApiError> {
    let storage = pve_state.storage(&id.storage)?;
    let name = name_of(pve_state, id)?;
    let path = path(storage, &name)?;
    let Some(volume) = storage.volume(node, &name.key(storage.kind)) else {
        return Err(ApiError::failed(format!("failed to stat '{path}'")));
    };
    let size = file_size(&path, &name, volume)?;
    if volume.backing.is_some() && name.format == volume.format {
        return Err(ApiError::failed(format!(
            "backing file not allowed for untrusted image '{path}'!"
        )));
    }
    Ok(size)
}

/// Copies the content of a volume or snapshot into another volume.
///
/// No bytes are copied: both volumes refer to the same stored file, which keeps its original format.
pub(crate) fn copy(
    pve_state: &mut PveState,
    (from_node, from): (&str, &VolumeId),
    snapshot: Option<&str>,
    (to_node, to): (&str, &VolumeId),
) -> Result<(), ApiError> {
    let failed = |pve_state: &PveState| {
        let formats = (name_of(pve_state, from)?.format, name_of(pve_state, to)?.format);
        let (source, target) = (path_of(pve_state, from)?, path_of(pve_state, to)?);
        Ok::<_, ApiError>(ApiError::failed(format!(
            "copy failed: command '/usr/bin/qemu-img convert -p -n -f {} -O {} {source} {target}' \
             failed: exit code 1",
            formats.0, formats.1
        )))
    };
    let Some(source) = find(pve_state, from_node, from)? else { return Err(failed(pve_state)?) };
    let saved = snapshot.map(|snapshot| source.snapshots.get(snapshot));
    let (saved, used) = match saved {
        None => (source.saved(), source.used),
        Some(Some(saved)) => (saved.clone(), source.used),
        Some(None) => return Err(failed(pve_state)?),
    };
    let free = room(pve_state.storage(&to.storage)?, to_node);
    let Some(target) = find(pve_state, to_node, to)? else { return Err(failed(pve_state)?) };
    let used = used.min(target.size).max(target.used);
    if used - target.used > free {
        return Err(failed(pve_state)?);
    }
    let target = volume_mut(pve_state, to_node, to)?;
    target.blob = saved.blob;
    target.written = saved.written;
    target.used = used;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::super::pve_state::{Backing, Volume};
    use super::super::fixture::{pve_state, volume};
    use super::super::volume::put;
    use super::*;

    fn id(text: &str) -> VolumeId {
        VolumeId::parse(text).unwrap()
    }

    #[test]
    fn untrusted_images_with_backing_file_are_rejected() {
        let mut pve_state = pve_state();
        let backing = Some(Backing { file: "/etc/passwd".to_owned() });
        let image = Volume { backing, used: 600, ..volume("qcow2", 1 << 30) };
        put(&mut pve_state, "pve1", &id("dir:import/back.qcow2"), image.clone()).unwrap();
        put(&mut pve_state, "pve1", &id("dir:import/back.raw"), image).unwrap();
        let check = |text: &str| check_untrusted(&pve_state, "pve1", &id(text));
        assert_eq!(
            check("dir:import/back.qcow2").unwrap_err().message,
            "backing file not allowed for untrusted image '/var/lib/vz/import/back.qcow2'!"
        );
        assert_eq!(check("dir:import/back.raw"), Ok(1024));
        assert_eq!(
            check("dir:import/none.raw").unwrap_err().message,
            "failed to stat '/var/lib/vz/import/none.raw'"
        );
    }

    #[test]
    fn copies_use_space() {
        let mut pve_state = pve_state();
        let image = Volume { used: 5 << 20, ..volume("qcow2", 64 << 20) };
        put(&mut pve_state, "pve1", &id("dir:import/a.qcow2"), image).unwrap();
        let target = id("lvmthin:vm-101-disk-0");
        put(&mut pve_state, "pve1", &target, Volume { used: 0, ..volume("raw", 64 << 20) })
            .unwrap();
        let from = id("dir:import/a.qcow2");
        copy(&mut pve_state, ("pve1", &from), None, ("pve1", &target)).unwrap();
        assert_eq!(find(&pve_state, "pve1", &target).unwrap().unwrap().used, 5 << 20);

        pve_state.storages.get_mut("lvmthin").unwrap().capacity = 6 << 20;
        let second = id("lvmthin:vm-101-disk-1");
        put(&mut pve_state, "pve1", &second, Volume { used: 0, ..volume("raw", 64 << 20) })
            .unwrap();
        let error = copy(&mut pve_state, ("pve1", &from), None, ("pve1", &second)).unwrap_err();
        assert_eq!(
            error.message,
            "copy failed: command '/usr/bin/qemu-img convert -p -n -f qcow2 -O raw \
             /var/lib/vz/import/a.qcow2 /dev/pve/vm-101-disk-1' failed: exit code 1"
        );
    }
}
