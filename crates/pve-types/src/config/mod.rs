//! VM configs: options to set, the observed config, and the differences between them.

mod drift;
mod json;
mod options;
mod rule;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::id::{Digest, DiskSlot};
use crate::property::{Drive, Net, Smbios, Tags, truthy};
use crate::wire::{Decode, Fields, Unreadable};

pub use drift::{Drift, drift};
pub use json::option_number;
pub use options::{VmChange, VmOptions};

/// Config of a VM as Proxmox reports it. Numbers are kept as texts, because a value can be a JSON number in one Proxmox
/// version and a text in another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmConfig(BTreeMap<String, String>);

impl VmConfig {
    pub fn new(entries: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(entries.into_iter().collect())
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    pub fn digest(&self) -> Option<Digest> {
        self.get("digest")?.parse().ok()
    }

    pub fn name(&self) -> Option<&str> {
        self.get("name")
    }

    pub fn description(&self) -> &str {
        self.get("description").unwrap_or_default()
    }

    /// Reason of the lock, such as `clone`; `None` if the VM is not locked.
    pub fn lock(&self) -> Option<&str> {
        self.get("lock")
    }

    pub fn is_template(&self) -> bool {
        self.get("template").and_then(truthy).unwrap_or_default()
    }

    pub fn is_protected(&self) -> bool {
        self.get("protection").and_then(truthy).unwrap_or_default()
    }

    pub fn tags(&self) -> Tags {
        Tags::parse(self.get("tags").unwrap_or_default())
    }

    pub fn smbios(&self) -> Smbios {
        Smbios::parse(self.get("smbios1").unwrap_or_default())
    }

    pub fn drive(&self, slot: &DiskSlot) -> Option<Drive> {
        self.get(slot.as_str()).map(Drive::parse)
    }

    /// All drives with their slots, including detached drives (`unused0`).
    pub fn drives(&self) -> impl Iterator<Item = (DiskSlot, Drive)> {
        self.iter().filter_map(|(key, value)| Some((key.parse().ok()?, Drive::parse(value))))
    }

    /// Drive on which Proxmox stores cloud-init data.
    pub fn cloudinit(&self) -> Option<(DiskSlot, Drive)> {
        self.drives().find(|(_, drive)| drive.is_cloudinit())
    }

    pub fn net(&self, index: u8) -> Option<Net> {
        self.get(&format!("net{index}")).map(Net::parse)
    }
}

impl Decode for VmConfig {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        Ok(Self(Fields::of(data)?.texts()))
    }
}

/// Option with its current value, and its value after the next stop and start of the VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingOption {
    pub key: String,
    pub value: Option<String>,
    pub pending: Option<PendingChange>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PendingChange {
    Set(String),
    Delete,
    /// The option and its volume are deleted.
    Destroy,
}

impl Decode for PendingOption {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let fields = Fields::of(data)?;
        let pending = match (fields.number("delete"), fields.text("pending")) {
            (Some(2), _) => Some(PendingChange::Destroy),
            (Some(1), _) => Some(PendingChange::Delete),
            (_, pending) => pending.map(PendingChange::Set),
        };
        Ok(Self { key: fields.need_text("key")?, value: fields.text("value"), pending })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_config_is_decoded_from_any_json_types() {
        let config = VmConfig::decode(&json!({
            "cores": 4, "memory": "8192", "protection": 1, "template": "0", "digest": "ab", "tags": "B;a",
            "scsi0": "local-lvm:vm-300-disk-1,size=40G", "ide2": "local-lvm:vm-300-cloudinit,media=cdrom",
            "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0", "unused0": "local-lvm:vm-300-disk-7",
            "smbios1": "uuid=AB",
        }))
        .unwrap();
        assert_eq!(config.get("cores"), Some("4"));
        assert!(config.is_protected() && !config.is_template());
        assert_eq!(config.drives().count(), 3);
        assert_eq!(config.cloudinit().unwrap().0.as_str(), "ide2");
        assert_eq!(config.smbios().uuid.as_deref(), Some("ab"));
        assert!(config.tags().contains("b"));
        assert!(config.net(0).is_some() && config.net(1).is_none());
        assert_eq!(config.digest().unwrap().as_str(), "ab");
    }

    #[test]
    fn pending_changes_are_classified() {
        let read = |data: Value| PendingOption::decode(&data).unwrap().pending;
        assert_eq!(
            read(json!({"key": "cores", "value": 2, "pending": 4})),
            Some(PendingChange::Set("4".to_owned()))
        );
        assert_eq!(
            read(json!({"key": "scsi1", "value": "x", "delete": "1"})),
            Some(PendingChange::Delete)
        );
        assert_eq!(
            read(json!({"key": "scsi1", "value": "x", "delete": 2})),
            Some(PendingChange::Destroy)
        );
        assert_eq!(read(json!({"key": "cores", "value": 2})), None);
    }
}
