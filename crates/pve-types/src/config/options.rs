use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use talmox_values::SecretText;
use talmox_values::secret::REDACTED;

use crate::encode;
use crate::id::{Digest, DiskSlot, StorageId};
use crate::property::{Agent, BootOrder, Drive, HostPci, IpConfig, Net, Smbios, Tags};
use crate::secret_parameter::is_secret;

/// Options to set on a VM.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct VmOptions(pub(super) BTreeMap<String, String>);

/// Declares setters for options with a single value.
macro_rules! setters {
    ($($name:ident: $type:ty => $key:literal,)*) => {
        $(
            #[must_use]
            pub fn $name(self, value: $type) -> Self {
                self.set($key, value)
            }
        )*
    };
}

/// Declares setters for boolean options. `false` is sent too, because the VM may have the value `true`.
macro_rules! flags {
    ($($name:ident => $key:literal,)*) => {
        $(
            #[must_use]
            pub fn $name(self, value: bool) -> Self {
                self.set($key, u8::from(value))
            }
        )*
    };
}

impl VmOptions {
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an option by its name in Proxmox.
    #[must_use]
    pub fn set(mut self, key: &str, value: impl fmt::Display) -> Self {
        self.0.insert(key.to_owned(), value.to_string());
        self
    }

    setters! {
        name: &str => "name",
        description: &str => "description",
        tags: &Tags => "tags",
        ostype: &str => "ostype",
        machine: &str => "machine",
        bios: &str => "bios",
        cpu: &str => "cpu",
        cores: u32 => "cores",
        sockets: u32 => "sockets",
        cpu_units: u32 => "cpuunits",
        memory_mib: u64 => "memory",
        balloon_mib: u64 => "balloon",
        scsihw: &str => "scsihw",
        vga: &str => "vga",
        rng0: &str => "rng0",
        hotplug: &str => "hotplug",
        startup: &str => "startup",
        boot: &BootOrder => "boot",
        agent: Agent => "agent",
        smbios1: &Smbios => "smbios1",
        nameserver: &str => "nameserver",
        searchdomain: &str => "searchdomain",
        ciuser: &str => "ciuser",
    }

    flags! {
        numa => "numa",
        onboot => "onboot",
        protection => "protection",
        tablet => "tablet",
        ciupgrade => "ciupgrade",
    }

    #[must_use]
    pub fn drive(self, slot: &DiskSlot, drive: &Drive) -> Self {
        self.set(slot.as_str(), drive)
    }

    #[must_use]
    pub fn net(self, index: u8, net: &Net) -> Self {
        self.set(&format!("net{index}"), net)
    }

    #[must_use]
    pub fn hostpci(self, index: u8, device: &HostPci) -> Self {
        self.set(&format!("hostpci{index}"), device)
    }

    #[must_use]
    pub fn ipconfig(self, index: u8, ip: &IpConfig) -> Self {
        self.set(&format!("ipconfig{index}"), ip)
    }

    /// Adds a serial port for the console of Proxmox.
    #[must_use]
    pub fn serial_socket(self, index: u8) -> Self {
        self.set(&format!("serial{index}"), "socket")
    }

    #[must_use]
    pub fn cipassword(self, password: &SecretText) -> Self {
        self.set("cipassword", password.expose())
    }

    /// Public SSH keys, one per line. Proxmox expects the value of this option percent-encoded twice.
    #[must_use]
    pub fn sshkeys(self, keys: &str) -> Self {
        self.set("sshkeys", encode::component(keys))
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Storages of the drives in these options.
    pub(crate) fn storages(&self) -> BTreeSet<StorageId> {
        let drives = self.iter().filter(|(key, _)| key.parse::<DiskSlot>().is_ok());
        drives.filter_map(|(_, value)| Drive::parse(value).storage().cloned()).collect()
    }
}

impl fmt::Debug for VmOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |(key, value)| (key, if is_secret(key) { REDACTED } else { value });
        f.debug_map().entries(self.iter().map(shown)).finish()
    }
}

/// Change of a VM config.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmChange {
    pub set: VmOptions,
    /// Options to delete. A deleted drive is detached, and its volume stays as `unusedN`.
    pub delete: Vec<String>,
    /// Names of options whose pending changes are reverted.
    pub revert: Vec<String>,
    /// Whether the volumes of the drives in `delete` are destroyed.
    pub destroy: bool,
    /// Digest of the config that the caller read. Proxmox rejects the change if the config has changed since.
    pub digest: Option<Digest>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_written_in_proxmox_notation() {
        let storage: StorageId = "local-lvm".parse().unwrap();
        let options = VmOptions::new()
            .cores(4)
            .onboot(true)
            .protection(false)
            .agent(Agent { enabled: true })
            .drive(&"scsi0".parse().unwrap(), &Drive::new(&storage, 40))
            .drive(&"ide2".parse().unwrap(), &Drive::cloudinit(&storage))
            .sshkeys("ssh-ed25519 AAAA me@here");
        insta::assert_debug_snapshot!(options, @r#"
        {
            "agent": "enabled=1",
            "cores": "4",
            "ide2": "local-lvm:cloudinit",
            "onboot": "1",
            "protection": "0",
            "scsi0": "local-lvm:40",
            "sshkeys": "ssh-ed25519%20AAAA%20me%40here",
        }
        "#);
        assert_eq!(options.storages(), [storage].into());
    }

    #[test]
    fn a_password_is_not_shown() {
        let options = VmOptions::new().cipassword(&SecretText::new("hunter2")).ciuser("me");
        let change = VmChange { set: options, ..VmChange::default() };
        let shown = format!("{change:?}");
        assert!(!shown.contains("hunter2") && shown.contains("cipassword"), "{shown}");
    }
}
