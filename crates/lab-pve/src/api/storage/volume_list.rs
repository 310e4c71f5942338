//! `GET /nodes/{node}/storage/{storage}/content`: list of volumes.

use serde_json::{Map, Value as Json, json};

use super::super::reply::{data, flag};
use crate::call::{Call, Outcome};
use crate::pve_state::{ContentType, Storage, StorageKind, Volume, VolumeId};
use crate::storage::{VolumeName, check_access, full_name};

/// Answers with the volumes that the caller may read, sorted by name.
pub(super) fn answer(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let id = call.params.text("storage").unwrap_or_default();
    let storage = pve_state.storage_on(id, &call.node)?;
    let wanted = call.params.text("content");
    let owner = call.params.number("vmid").and_then(|vmid| u32::try_from(vmid).ok());
    let mut shown = vec![];
    for (key, volume) in storage.volumes_on(&call.node) {
        let Ok(name) = VolumeName::parse(storage.kind, key) else { continue };
        let of_type = storage.content.contains(&name.content)
            && wanted.is_none_or(|wanted| wanted == name.content.name());
        // Snippets and imports have no owner. The filter `vmid` does not exclude them.
        let of_owner = matches!(name.content, ContentType::Snippets | ContentType::Import)
            || owner.is_none_or(|owner| name.owner == Some(owner));
        let volume_id = VolumeId::new(id, full_name(storage.kind, key, volume));
        let readable = check_access(&pve_state, &call.caller, None, &volume_id).is_ok();
        if of_type && of_owner && readable {
            let sorted_by = volume_id.to_string().to_lowercase();
            shown.push((sorted_by, entry(storage, &volume_id, &name, volume)));
        }
    }
    shown.sort_by(|(a, _), (b, _)| a.cmp(b));
    data(shown.into_iter().map(|(_, entry)| entry).collect::<Vec<_>>())
}

fn entry(storage: &Storage, id: &VolumeId, name: &VolumeName, volume: &Volume) -> Json {
    let mut entry = Map::new();
    let mut put = |key: &str, value: Json| entry.insert(key.to_owned(), value);
    put("content", json!(name.content.name()));
    put("format", json!(listed_format(name)));
    put("volid", json!(id.to_string()));
    if let Some(owner) = name.owner {
        put("vmid", json!(owner));
    }
    if name.content != ContentType::Images {
        put("ctime", json!(volume.created));
        // The size of a file is its length, not the virtual size of the image in it.
        put("size", json!(volume.used));
        if name.content == ContentType::Backup {
            put("subtype", json!(if name.owner.is_some() { "qemu" } else { "unknown" }));
            let first_line = volume.notes.as_deref().and_then(|notes| notes.lines().next());
            if let Some(line) = first_line {
                put("notes", json!(line));
            }
            if volume.protected {
                put("protected", flag(true));
            }
        }
        return Json::Object(entry);
    }
    put("size", json!(volume.size));
    match storage.kind {
        StorageKind::Lvm | StorageKind::LvmThin => {
            put("ctime", json!(volume.created));
        }
        StorageKind::ZfsPool => {
            put("name", json!(name.file));
            put("parent", json!(volume.base.as_ref().map(|base| format!("{base}@__base__"))));
        }
        _ => {
            put("ctime", json!(volume.created));
            put("parent", json!(volume.base.as_ref().map(|base| format!("../{base}"))));
            put("used", json!(volume.used));
        }
    }
    Json::Object(entry)
}

/// Format in the volume list. ISO images, snippets and container templates have format names of their own.
fn listed_format(name: &VolumeName) -> String {
    let extension = |from: &str| name.file.rfind(from).map(|at| name.file[at + 1..].to_owned());
    match name.content {
        ContentType::Iso => "iso".to_owned(),
        ContentType::Snippets => "snippet".to_owned(),
        ContentType::Vztmpl => match name.file.rsplit_once('.') {
            Some((_, "tar")) | None => "tar".to_owned(),
            Some((_, compression)) => format!("t{compression}"),
        },
        ContentType::Backup => extension(".vma")
            .or_else(|| extension(".tar"))
            .or_else(|| extension(".tgz"))
            .unwrap_or_default(),
        _ => name.format.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_formats() {
        for (name, format) in [
            ("iso/a.img", "iso"),
            ("snippets/a.yaml", "snippet"),
            ("vztmpl/a.tar.zst", "tzst"),
            ("vztmpl/a.tar", "tar"),
            ("backup/vzdump-qemu-101-2024_01_01-00_00_00.vma.zst", "vma.zst"),
            ("import/a.qcow2", "qcow2"),
            ("101/vm-101-disk-0.raw", "raw"),
        ] {
            let parsed = VolumeName::parse(StorageKind::Dir, name).unwrap();
            assert_eq!(listed_format(&parsed), format, "{name}");
        }
    }
}
