use std::fmt;

use super::{Properties, join};
use crate::id::ConfigId;

/// PCI device of the host that is passed through to a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPci {
    pub source: PciSource,
    /// Whether the VM has the device as a PCI Express device. This requires a q35 machine.
    pub pcie: bool,
    /// Whether the ROM of the device is visible to the guest.
    pub rombar: bool,
    /// Whether the device is the primary graphics card of the guest.
    pub x_vga: bool,
    /// Further options, such as `mdev` and `romfile`.
    pub other: Properties,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PciSource {
    Mapping(ConfigId),
    /// PCI address, such as `0000:28:00.0`. Only root@pam with a ticket can set it.
    Host(String),
}

impl HostPci {
    /// Device with the default options of Proxmox.
    pub fn new(source: PciSource) -> Self {
        Self { source, pcie: false, rombar: true, x_vga: false, other: Properties::default() }
    }

    /// Parses any notation of Proxmox.
    pub fn parse(text: &str) -> Self {
        let mut other = Properties::parse(text, Some("host"));
        let mapping = other.remove("mapping").and_then(|mapping| mapping.parse().ok());
        let host = other.remove("host");
        let source = match mapping {
            Some(mapping) => PciSource::Mapping(mapping),
            None => PciSource::Host(host.unwrap_or_default()),
        };
        let mut flag = |key: &str, default: bool| {
            let flag = other.flag(key).unwrap_or(default);
            let _text = other.remove(key);
            flag
        };
        let (pcie, rombar, x_vga) =
            (flag("pcie", false), flag("rombar", true), flag("x-vga", false));
        Self { source, pcie, rombar, x_vga, other }
    }
}

impl fmt::Display for HostPci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match &self.source {
            PciSource::Mapping(mapping) => format!("mapping={mapping}"),
            PciSource::Host(host) => host.clone(),
        };
        f.write_str(&join([
            Some(source),
            self.pcie.then(|| "pcie=1".to_owned()),
            (!self.rombar).then(|| "rombar=0".to_owned()),
            self.x_vga.then(|| "x-vga=1".to_owned()),
            Some(self.other.to_string()),
        ]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_pci_devices_round_trip() {
        let read = HostPci::parse("mapping=gpu,pcie=on,rombar=1,x-vga=1");
        assert_eq!(read.to_string(), "mapping=gpu,pcie=1,x-vga=1");
        assert_eq!(HostPci::parse(&read.to_string()), read);
        let raw = HostPci::parse("0000:28:00.0,rombar=0,mdev=nvidia-1");
        assert_eq!(raw.source, PciSource::Host("0000:28:00.0".to_owned()));
        assert_eq!(raw.to_string(), "0000:28:00.0,rombar=0,mdev=nvidia-1");
        let plain = HostPci::new(PciSource::Mapping("gpu".parse().unwrap()));
        assert_eq!(plain.to_string(), "mapping=gpu");
    }
}
