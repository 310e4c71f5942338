use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{BadId, StorageId};

/// Volume on a storage, such as `local:import/talos.qcow2` or `local-lvm:vm-300-disk-0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId {
    storage: StorageId,
    name: Arc<str>,
}

impl VolumeId {
    pub fn storage(&self) -> &StorageId {
        &self.storage
    }

    /// Name of the volume on the storage, including folders.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Name of the volume without folders.
    pub fn file_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }

    /// Whether Proxmox writes cloud-init data to this volume.
    pub fn is_cloudinit(&self) -> bool {
        let stem = self.file_name().split('.').next().unwrap_or_default();
        let middle = stem.strip_prefix("vm-").and_then(|rest| rest.strip_suffix("-cloudinit"));
        middle.is_some_and(|vmid| vmid.bytes().all(|byte| byte.is_ascii_digit()))
    }
}

impl FromStr for VolumeId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let bad = || {
            BadId::new(text, "a volume id", "a storage, `:`, and a name without blanks or commas")
        };
        let (storage, name) = text.split_once(':').ok_or_else(bad)?;
        let storage = storage.parse().map_err(|_| bad())?;
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || c == ',';
        if name.is_empty() || name.contains(is_odd) || name.split('/').any(|part| part == "..") {
            return Err(bad());
        }
        Ok(Self { storage, name: name.into() })
    }
}

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.storage, self.name)
    }
}

json_text!(VolumeId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_a_storage_and_a_name() {
        let volume: VolumeId = "local:import/talos.qcow2".parse().unwrap();
        assert_eq!((volume.storage().as_str(), volume.name()), ("local", "import/talos.qcow2"));
        assert_eq!(volume.file_name(), "talos.qcow2");
        assert_eq!(volume.to_string(), "local:import/talos.qcow2");
        for text in ["", "local", "local:", ":x", "l:x", "local:a b", "local:a,b", "local:../x"] {
            assert!(text.parse::<VolumeId>().is_err(), "{text}");
        }
    }

    #[test]
    fn cloudinit_drives_are_recognized_by_name() {
        let is = |text: &str| text.parse::<VolumeId>().unwrap().is_cloudinit();
        assert!(is("local-lvm:vm-300-cloudinit"));
        assert!(is("local:300/vm-300-cloudinit.qcow2"));
        assert!(!is("local-lvm:vm-300-disk-0"));
        assert!(!is("local:iso/my-cloudinit.iso"));
    }
}
