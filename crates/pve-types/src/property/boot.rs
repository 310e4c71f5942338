use std::fmt;

use super::{Properties, truthy};

/// Boot devices of a VM, in boot order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootOrder(pub Vec<String>);

impl BootOrder {
    pub fn of<T: fmt::Display>(devices: impl IntoIterator<Item = T>) -> Self {
        Self(devices.into_iter().map(|device| device.to_string()).collect())
    }

    /// Parses any notation of Proxmox. The old notation with letters contains no devices.
    pub fn parse(text: &str) -> Self {
        let properties = Properties::parse(text, Some("legacy"));
        let order = properties.get("order").unwrap_or_default();
        Self::of(order.split(';').map(str::trim).filter(|device| !device.is_empty()))
    }
}

impl fmt::Display for BootOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "order={}", self.0.join(";"))
    }
}

/// Guest agent setting of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agent {
    pub enabled: bool,
}

impl Agent {
    /// Parses any notation of Proxmox.
    pub fn parse(text: &str) -> Self {
        let properties = Properties::parse(text, Some("enabled"));
        Self { enabled: properties.get("enabled").and_then(truthy).unwrap_or_default() }
    }
}

impl fmt::Display for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "enabled={}", u8::from(self.enabled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_order_is_parsed_with_other_keys() {
        let order = BootOrder::of(["scsi0", "ide2"]);
        assert_eq!(order.to_string(), "order=scsi0;ide2");
        assert_eq!(BootOrder::parse("order=scsi0;ide2,legacy=cdn"), order);
        assert_eq!(BootOrder::parse(" "), BootOrder::default());
        assert_eq!(BootOrder::parse("cdn"), BootOrder::default());
    }

    #[test]
    fn the_agent_is_on_or_off() {
        assert!(Agent::parse("1").enabled && Agent::parse("type=virtio,enabled=on").enabled);
        assert!(!Agent::parse("0").enabled && !Agent::parse("fstrim_cloned_disks=1").enabled);
        assert_eq!(Agent { enabled: true }.to_string(), "enabled=1");
    }
}
