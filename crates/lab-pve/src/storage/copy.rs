//! Filling volumes from others: imports and full clones.

use super::super::Refusal;
use super::super::world::{VolumeId, World};
use super::alloc::room;
use super::rules::path;
use super::volume::{file_size, find, name_of, path_of, volume_mut};

/// Judges an image that somebody brought, before anything is made of it, and gives its size.
pub(crate) fn check_untrusted(world: &World, node: &str, id: &VolumeId) -> Result<u64, Refusal> {
    let storage = world.storage(&id.storage)?;
    let name = name_of(world, id)?;
    let path = path(storage, &name)?;
    let Some(volume) = storage.volume(node, &name.key(storage.kind)) else {
        return Err(Refusal::failed(format!("failed to stat '{path}'")));
    };
    let size = file_size(&path, &name, volume)?;
    if volume.backing.is_some() && name.format == volume.format {
        return Err(Refusal::failed(format!(
            "backing file not allowed for untrusted image '{path}'!"
        )));
    }
    Ok(size)
}

/// Copies what is in one volume, or in its snapshot, into another that was made for it.
///
/// The bytes are shared: what the target holds is what once came in, in the format of that time.
pub(crate) fn copy(
    world: &mut World,
    (from_node, from): (&str, &VolumeId),
    snapshot: Option<&str>,
    (to_node, to): (&str, &VolumeId),
) -> Result<(), Refusal> {
    let failed = |world: &World| {
        let formats = (name_of(world, from)?.format, name_of(world, to)?.format);
        let (source, target) = (path_of(world, from)?, path_of(world, to)?);
        Ok::<_, Refusal>(Refusal::failed(format!(
            "copy failed: command '/usr/bin/qemu-img convert -p -n -f {} -O {} {source} {target}' \
             failed: exit code 1",
            formats.0, formats.1
        )))
    };
    let Some(source) = find(world, from_node, from)? else { return Err(failed(world)?) };
    let saved = snapshot.map(|snapshot| source.snapshots.get(snapshot));
    let (saved, used) = match saved {
        None => (source.saved(), source.used),
        Some(Some(saved)) => (saved.clone(), source.used),
        Some(None) => return Err(failed(world)?),
    };
    let free = room(world.storage(&to.storage)?, to_node);
    let Some(target) = find(world, to_node, to)? else { return Err(failed(world)?) };
    let used = used.min(target.size).max(target.used);
    if used - target.used > free {
        return Err(failed(world)?);
    }
    let target = volume_mut(world, to_node, to)?;
    target.blob = saved.blob;
    target.written = saved.written;
    target.used = used;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::super::world::{Backing, Volume};
    use super::super::fixture::{volume, world};
    use super::super::volume::put;
    use super::*;

    fn id(text: &str) -> VolumeId {
        VolumeId::parse(text).unwrap()
    }

    #[test]
    fn images_of_strangers() {
        let mut world = world();
        let backing = Some(Backing { file: "/etc/passwd".to_owned() });
        let image = Volume { backing, used: 600, ..volume("qcow2", 1 << 30) };
        put(&mut world, "pve1", &id("dir:import/back.qcow2"), image.clone()).unwrap();
        put(&mut world, "pve1", &id("dir:import/back.raw"), image).unwrap();
        let check = |text: &str| check_untrusted(&world, "pve1", &id(text));
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
    fn copies_take_room() {
        let mut world = world();
        let image = Volume { used: 5 << 20, ..volume("qcow2", 64 << 20) };
        put(&mut world, "pve1", &id("dir:import/a.qcow2"), image).unwrap();
        let target = id("lvmthin:vm-101-disk-0");
        put(&mut world, "pve1", &target, Volume { used: 0, ..volume("raw", 64 << 20) }).unwrap();
        let from = id("dir:import/a.qcow2");
        copy(&mut world, ("pve1", &from), None, ("pve1", &target)).unwrap();
        assert_eq!(find(&world, "pve1", &target).unwrap().unwrap().used, 5 << 20);

        world.storages.get_mut("lvmthin").unwrap().capacity = 6 << 20;
        let second = id("lvmthin:vm-101-disk-1");
        put(&mut world, "pve1", &second, Volume { used: 0, ..volume("raw", 64 << 20) }).unwrap();
        let error = copy(&mut world, ("pve1", &from), None, ("pve1", &second)).unwrap_err();
        assert_eq!(
            error.message,
            "copy failed: command '/usr/bin/qemu-img convert -p -n -f qcow2 -O raw \
             /var/lib/vz/import/a.qcow2 /dev/pve/vm-101-disk-1' failed: exit code 1"
        );
    }
}
