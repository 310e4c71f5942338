//! MAC addresses.

use std::fmt;

use serde_json::{Value as Json, json};
use talmox_yaml::Scalar;

use crate::language::Leaf;

/// A unicast MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddress(pub [u8; 6]);

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = self.0.map(|byte| format!("{byte:02X}"));
        f.write_str(&pairs.join(":"))
    }
}

impl Leaf for MacAddress {
    const EXPECTED: &'static str = "a MAC address such as `BC:24:11:0A:1B:2C`";

    fn parse(scalar: &Scalar) -> Result<Self, Option<String>> {
        let mut bytes = [0; 6];
        let mut parts = scalar.text.split([':', '-']);
        for byte in &mut bytes {
            let part = parts.next().filter(|part| part.len() == 2).ok_or(None)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| None)?;
        }
        if parts.next().is_some() {
            return Err(None);
        }
        if bytes[0] & 1 == 1 {
            return Err(Some(
                "a multicast MAC cannot belong to a machine: its first byte must be even"
                    .to_owned(),
            ));
        }
        if bytes == [0; 6] {
            return Err(Some("the MAC is all zeros".to_owned()));
        }
        Ok(Self(bytes))
    }

    fn schema() -> Json {
        json!({ "type": "string", "pattern": "^([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}$" })
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unicast_addresses_are_taken() {
        let parse =
            |text: &str| MacAddress::parse(&Scalar { text: text.to_owned(), ..Scalar::default() });
        assert_eq!(parse("bc-24-11-0a-1b-2c").unwrap().to_string(), "BC:24:11:0A:1B:2C");
        assert!(matches!(parse("01:00:5e:00:00:01"), Err(Some(_))));
        assert!(matches!(parse("00:00:00:00:00:00"), Err(Some(_))));
        for bad in ["bc:24:11:0a:1b", "bc:24:11:0a:1b:2c:3d", "bc:24:11:0a:1b:zz", "b:2:1:0:1:2"] {
            assert_eq!(parse(bad), Err(None), "{bad}");
        }
    }
}
