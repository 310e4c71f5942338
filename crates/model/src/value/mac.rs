//! MAC addresses in the inventory.

use serde_json::{Value as Json, json};
use talmox_values::{BadMac, MacAddress};
use talmox_yaml::Scalar;

use crate::language::Leaf;

impl Leaf for MacAddress {
    const EXPECTED: &'static str = "a MAC address such as `BC:24:11:0A:1B:2C`";

    fn parse(scalar: &Scalar) -> Result<Self, Option<String>> {
        match scalar.text.parse::<Self>() {
            Ok(mac) if mac.bytes() == [0; 6] => Err(Some("the MAC is all zeros".to_owned())),
            Ok(mac) => Ok(mac),
            Err(BadMac::Malformed) => Err(None),
            Err(problem @ BadMac::Multicast) => Err(Some(problem.to_string())),
        }
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
    fn only_unicast_addresses_are_accepted() {
        let parse = |text: &str| {
            <MacAddress as Leaf>::parse(&Scalar { text: text.to_owned(), ..Scalar::default() })
        };
        assert_eq!(parse("bc-24-11-0a-1b-2c").unwrap().to_string(), "BC:24:11:0A:1B:2C");
        let multicast = "a multicast MAC cannot belong to a machine: its first byte must be even";
        assert_eq!(parse("01:00:5e:00:00:01"), Err(Some(multicast.to_owned())));
        assert_eq!(parse("00:00:00:00:00:00"), Err(Some("the MAC is all zeros".to_owned())));
        for bad in ["bc:24:11:0a:1b", "bc:24:11:0a:1b:2c:3d", "bc:24:11:0a:1b:zz", "b:2:1:0:1:2"] {
            assert_eq!(parse(bad), Err(None), "{bad}");
        }
    }
}
