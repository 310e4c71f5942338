//! UUIDs of machines.

use std::fmt;

use serde_json::{Value as Json, json};
use talmox_yaml::Scalar;

use crate::language::Leaf;

/// UUID. The bytes are in the order of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Uuid([u8; 16]);

impl Uuid {
    pub fn bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let dash = if matches!(index, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

impl Leaf for Uuid {
    const EXPECTED: &'static str = "a UUID such as `3c8e4b1a-0f6d-4a57-9b1e-2d7c5f60a1b2`";

    fn parse(scalar: &Scalar) -> Result<Self, Option<String>> {
        let text = scalar.text.to_ascii_lowercase();
        let number = u128::from_str_radix(&text.replace('-', ""), 16).map_err(|_| None)?;
        let uuid = Self(number.to_be_bytes());
        // This also rejects hyphens at wrong positions.
        if uuid.to_string() != text {
            return Err(None);
        }
        if number == 0 {
            return Err(Some("the UUID is all zeros".to_owned()));
        }
        Ok(uuid)
    }

    fn schema() -> Json {
        json!({ "type": "string", "pattern": "^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$" })
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_one_form() {
        let parse = |text: &str| {
            <Uuid as Leaf>::parse(&Scalar { text: text.to_owned(), ..Scalar::default() })
        };
        let text = "3c8e4b1a-0f6d-4a57-9b1e-2d7c5f60a1b2";
        assert_eq!(parse(text).unwrap().to_string(), text);
        assert_eq!(parse(&text.to_uppercase()).unwrap().to_string(), text);
        for bad in
            ["", "1", "3c8e4b1a0f6d4a579b1e2d7c5f60a1b2", "3c8e4b1-a0f6d-4a57-9b1e-2d7c5f60a1b2"]
        {
            assert_eq!(parse(bad), Err(None), "{bad}");
        }
        let zero = parse("00000000-0000-0000-0000-000000000000");
        assert_eq!(zero, Err(Some("the UUID is all zeros".to_owned())));
    }
}
