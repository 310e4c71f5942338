//! Devices in the boot order of a VM.

use std::fmt;

use serde_json::{Value as Json, json};
use talmox_yaml::Scalar;

use crate::language::Leaf;

/// Device that a VM can boot from, as Proxmox names it: a disk, a network card or a PCI device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BootDevice(String);

/// Names of the devices, without their numbers.
const FAMILIES: [&str; 5] = ["scsi", "virtio", "sata", "net", "hostpci"];

impl BootDevice {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BootDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Leaf for BootDevice {
    const EXPECTED: &'static str = "a device of the VM such as `scsi0` or `net0`";

    fn parse(scalar: &Scalar) -> Result<Self, Option<String>> {
        let text = scalar.text.as_str();
        let name = text.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = &text[name.len()..];
        let is_number =
            (1..=2).contains(&number.len()) && (number == "0" || !number.starts_with('0'));
        if FAMILIES.contains(&name) && is_number { Ok(Self(text.to_owned())) } else { Err(None) }
    }

    fn schema() -> Json {
        json!({ "type": "string", "pattern": "^(scsi|virtio|sata|net|hostpci)(0|[1-9][0-9]?)$" })
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use talmox_yaml::Style;

    use super::*;

    #[test]
    fn devices_have_a_name_and_a_number() {
        let parse =
            |text: &str| BootDevice::parse(&Scalar { text: text.to_owned(), style: Style::Plain });
        for good in ["scsi0", "net31", "hostpci0", "sata5"] {
            assert_eq!(parse(good).map(|device| device.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "scsi", "scsi00", "scsi100", "ide2", "disk", "0", "net 0"] {
            assert_eq!(parse(bad), Err(None), "{bad}");
        }
    }
}
