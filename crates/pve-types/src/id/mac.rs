use std::fmt;
use std::str::FromStr;

use super::BadId;

/// The address of a NIC. Case does not matter; it is written in upper case, as Proxmox makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddress([u8; 6]);

const WHAT: &str = "a MAC address of one NIC";
const RULE: &str = "six bytes such as BC:24:11:00:00:01, the first one even";

impl MacAddress {
    pub fn new(bytes: [u8; 6]) -> Result<Self, BadId> {
        let address = Self(bytes);
        if bytes[0] & 1 == 0 {
            Ok(address)
        } else {
            Err(BadId::new(&address.to_string(), WHAT, RULE))
        }
    }

    pub fn bytes(self) -> [u8; 6] {
        self.0
    }
}

impl FromStr for MacAddress {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let byte = |part: &str| {
            let is_hex = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
            u8::from_str_radix(part, 16).ok().filter(|_| is_hex)
        };
        let bytes: Option<Vec<u8>> = text.split(':').map(byte).collect();
        let bytes = bytes.and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
        bytes.ok_or_else(|| BadId::new(text, WHAT, RULE)).and_then(Self::new)
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.map(|byte| format!("{byte:02X}"));
        f.write_str(&bytes.join(":"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_equal_whatever_their_case() {
        let upper: MacAddress = "BC:24:11:0A:0B:0C".parse().unwrap();
        assert_eq!(upper, "bc:24:11:0a:0b:0c".parse().unwrap());
        assert_eq!(upper.to_string(), "BC:24:11:0A:0B:0C");
        for text in ["", "BC:24:11:0A:0B", "BD:24:11:0A:0B:0C", "BC:24:11:0A:0B:+C", "BC-24"] {
            assert!(text.parse::<MacAddress>().is_err(), "{text}");
        }
    }
}
