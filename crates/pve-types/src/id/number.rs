use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::BadId;

/// Number of a VM or container (vmid), unique in the Proxmox cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VmId(u32);

const WHAT: &str = "a VM id";
const RULE: &str = "a number from 100 to 999999999";

impl VmId {
    pub fn new(number: u32) -> Result<Self, BadId> {
        if (100..=999_999_999).contains(&number) {
            Ok(Self(number))
        } else {
            Err(BadId::new(&number.to_string(), WHAT, RULE))
        }
    }

    pub fn get(self) -> u32 {
        self.0
    }
}

impl FromStr for VmId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
        let number = text.parse().ok().filter(|_| is_plain);
        number.ok_or_else(|| BadId::new(text, WHAT, RULE)).and_then(Self::new)
    }
}

impl fmt::Display for VmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for VmId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.0)
    }
}

impl<'de> Deserialize<'de> for VmId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(u32::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vmids_outside_of_the_range_are_rejected() {
        assert_eq!("300".parse::<VmId>().unwrap().get(), 300);
        assert_eq!(VmId::new(999_999_999).unwrap().to_string(), "999999999");
        for text in ["", "99", "0100", "+300", "1000000000", "99999999999", "3 00", "-300"] {
            assert!(text.parse::<VmId>().is_err(), "{text}");
        }
    }

    #[test]
    fn ids_are_numbers_in_json() {
        let id = VmId::new(300).unwrap();
        assert_eq!(serde_json::to_string(&id).unwrap(), "300");
        assert_eq!(serde_json::from_str::<VmId>("300").unwrap(), id);
        for text in ["99", "\"300\"", "-1"] {
            assert!(serde_json::from_str::<VmId>(text).is_err(), "{text}");
        }
    }
}
