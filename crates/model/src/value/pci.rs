//! PCI addresses, in the form that `lspci -D` prints.

use std::fmt;

use serde_json::{Value as Json, json};
use talmox_yaml::Scalar;

use crate::language::Leaf;

/// PCI address `domain:bus:device.function`. An address without a function means all functions of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    pub domain: u16,
    pub bus: u8,
    pub device: u8,
    pub function: Option<u8>,
}

impl PciAddress {
    /// Whether the two addresses have a function in common.
    pub fn overlaps(self, other: Self) -> bool {
        (self.domain, self.bus, self.device) == (other.domain, other.bus, other.device)
            && (self.function.is_none()
                || other.function.is_none()
                || self.function == other.function)
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}", self.domain, self.bus, self.device)?;
        self.function.map_or(Ok(()), |function| write!(f, ".{function}"))
    }
}

impl Leaf for PciAddress {
    const EXPECTED: &'static str = "a PCI address such as `0000:28:00.0`";

    fn parse(scalar: &Scalar) -> Result<Self, Option<String>> {
        let hex = |text: &str, digits: usize| {
            let is_hex = text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit());
            is_hex.then(|| u16::from_str_radix(text, 16).ok()).flatten().ok_or(None)
        };
        let (slot, function) = match scalar.text.split_once('.') {
            Some((slot, function)) => (slot, Some(hex(function, 1)?)),
            None => (scalar.text.as_str(), None),
        };
        let parts: Vec<&str> = slot.split(':').collect();
        let (domain, bus, device) = match parts.as_slice() {
            [bus, device] => (0, hex(bus, 2)?, hex(device, 2)?),
            [domain, bus, device] => (hex(domain, 4)?, hex(bus, 2)?, hex(device, 2)?),
            _ => return Err(None),
        };
        if device > 0x1f || function.is_some_and(|function| function > 7) {
            return Err(Some(
                "the device of a PCI address is 00 to 1f, and its function 0 to 7".to_owned(),
            ));
        }
        let byte = |number: u16| u8::try_from(number).expect("invariant: at most two hex digits");
        Ok(Self { domain, bus: byte(bus), device: byte(device), function: function.map(byte) })
    }

    fn schema() -> Json {
        json!({
            "type": "string",
            "pattern": "^([0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[01][0-9a-fA-F](\\.[0-7])?$",
        })
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<PciAddress, Option<String>> {
        PciAddress::parse(&Scalar { text: text.to_owned(), ..Scalar::default() })
    }

    #[test]
    fn the_domain_and_the_function_are_optional() {
        assert_eq!(parse("0000:28:00.0").unwrap().to_string(), "0000:28:00.0");
        assert_eq!(parse("28:00").unwrap().to_string(), "0000:28:00");
        assert!(parse("28:00").unwrap().overlaps(parse("0000:28:00.1").unwrap()));
        assert!(!parse("28:00.0").unwrap().overlaps(parse("28:00.1").unwrap()));
        for bad in ["28", "28:00:00:00.0", "28:00.8", "28:20.0", "0x28:00.0", "", "+0:00.0"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
