//! Reassignment of a volume to another VM.

use super::super::ApiError;
use super::super::pve_state::{PveState, VolumeId};
use super::allocation::{Allocation, first_free};
use super::volume::{name_of, storage_mut, volume_mut};
use super::volume_name::full_name;

/// Renames a volume to the first free name of another VM.
pub(crate) fn rename(
    pve_state: &mut PveState,
    node: &str,
    id: &VolumeId,
    vmid: u32,
) -> Result<VolumeId, ApiError> {
    pve_state.storage_on(&id.storage, node)?;
    let name = name_of(pve_state, id)?;
    let volume = volume_mut(pve_state, node, id)?.clone();
    let storage = storage_mut(pve_state, &id.storage)?;
    let kind = storage.kind;
    let new = Allocation {
        node,
        storage: &id.storage,
        vmid,
        format: Some(name.format),
        name: None,
        kib: 0,
        now: 0,
    };
    let file = first_free(storage, &new, name.format, "vm")?;
    let key = if kind.has_files() { format!("{vmid}/{file}") } else { file };
    let renamed = VolumeId::new(&id.storage, full_name(kind, &key, &volume));
    storage.take(node, &name.key(kind));
    storage.put(node, key, volume);
    Ok(renamed)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{pve_state, volume};
    use super::super::volume::{find, put};
    use super::*;

    #[test]
    fn renamed_volume_contains_new_vmid() {
        let mut pve_state = pve_state();
        let id = |text| VolumeId::parse(text).unwrap();
        for (old, new, format) in [
            ("lvmthin:vm-1-disk-3", "lvmthin:vm-2-disk-0", "raw"),
            ("dir:1/vm-1-disk-0.qcow2", "dir:2/vm-2-disk-0.qcow2", "qcow2"),
            (
                "nfs:9/base-9-disk-0.raw/1/vm-1-disk-0.qcow2",
                "nfs:9/base-9-disk-0.raw/2/vm-2-disk-0.qcow2",
                "qcow2",
            ),
        ] {
            put(&mut pve_state, "pve1", &id(old), volume(format, 4 << 20)).unwrap();
            let renamed = rename(&mut pve_state, "pve1", &id(old), 2).unwrap();
            assert_eq!(renamed.to_string(), new);
            assert_eq!(find(&pve_state, "pve1", &id(old)), Ok(None));
            assert!(find(&pve_state, "pve1", &renamed).unwrap().is_some());
        }
        assert!(rename(&mut pve_state, "pve1", &id("lvmthin:vm-1-disk-3"), 2).is_err());
    }
}
