//! MAC addresses of network cards.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// MAC address of one network card. Displays in upper case, as Proxmox writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddress([u8; 6]);

/// Reason why a text or six bytes are not the MAC address of a network card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMac {
    #[error("not six bytes such as BC:24:11:00:00:01")]
    Malformed,
    #[error("a multicast MAC cannot belong to a machine: its first byte must be even")]
    Multicast,
}

impl MacAddress {
    pub fn new(bytes: [u8; 6]) -> Result<Self, BadMac> {
        if bytes[0] & 1 == 0 { Ok(Self(bytes)) } else { Err(BadMac::Multicast) }
    }

    pub fn bytes(self) -> [u8; 6] {
        self.0
    }

    /// The address in lower case, as Talos writes it.
    pub fn lower_case(self) -> String {
        self.to_string().to_ascii_lowercase()
    }
}

impl FromStr for MacAddress {
    type Err = BadMac;

    /// Accepts colons or dashes between the bytes, and upper and lower case.
    fn from_str(text: &str) -> Result<Self, BadMac> {
        let byte = |part: &str| {
            let is_hex = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
            u8::from_str_radix(part, 16).ok().filter(|_| is_hex)
        };
        let bytes: Option<Vec<u8>> = text.split([':', '-']).map(byte).collect();
        let bytes = bytes.and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
        bytes.ok_or(BadMac::Malformed).and_then(Self::new)
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.map(|byte| format!("{byte:02X}"));
        f.write_str(&bytes.join(":"))
    }
}

/// Serialized as text.
impl Serialize for MacAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MacAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse::<Self>().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_and_separator_do_not_matter() {
        let upper: MacAddress = "BC:24:11:0A:0B:0C".parse().unwrap();
        for text in ["bc:24:11:0a:0b:0c", "bc-24-11-0A-0b-0c"] {
            assert_eq!(text.parse(), Ok(upper));
        }
        assert_eq!(upper.to_string(), "BC:24:11:0A:0B:0C");
        assert_eq!(upper.lower_case(), "bc:24:11:0a:0b:0c");
        assert_eq!(upper.bytes(), [0xbc, 0x24, 0x11, 0x0a, 0x0b, 0x0c]);
    }

    #[test]
    fn other_texts_are_rejected() {
        for text in [
            "",
            "BC-24",
            "BC:24:11:0A:0B",
            "BC:24:11:0A:0B:0C:0D",
            "BC:24:11:0A:0B:+C",
            "BC:24:11:0A:0B:ZZ",
            "b:2:1:0:1:2",
        ] {
            assert_eq!(text.parse::<MacAddress>(), Err(BadMac::Malformed), "{text}");
        }
        assert_eq!("01:00:5e:00:00:01".parse::<MacAddress>(), Err(BadMac::Multicast));
    }
}
