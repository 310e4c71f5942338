//! SMBIOS UUID of a VM, derived from the random id of the cluster and the name of the node.

use std::fmt;

use aws_lc_rs::digest;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// UUID namespace of talmox. It keeps these UUIDs distinct from other values that are derived from the id of the cluster.
pub(crate) const NAMESPACE: [u8; 16] = *b"talmox machine 1";

/// UUID in the SMBIOS tables of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SmbiosUuid([u8; 16]);

impl fmt::Display for SmbiosUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let dash = if matches!(index, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

impl Serialize for SmbiosUuid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SmbiosUuid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("not a UUID"))
    }
}

impl SmbiosUuid {
    /// The UUID of the VM of the node `node`.
    pub fn of(cluster_id: &str, node: &str) -> Self {
        Self(version_5(version_5(NAMESPACE, cluster_id), node))
    }

    /// Parses a UUID in lower case. None if the text is not a UUID.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let number = u128::from_str_radix(&text.replace('-', ""), 16).ok()?;
        let uuid = Self(number.to_be_bytes());
        // The comparison also rejects a text with hyphens in other places.
        (uuid.to_string() == text).then_some(uuid)
    }

    /// The UUID of an adopted VM, as the inventory records it.
    pub(crate) fn recorded(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The first eight bytes, as a number.
    pub(crate) fn high_bits(self) -> u64 {
        self.0[..8].iter().fold(0, |number, byte| (number << 8) | u64::from(*byte))
    }

    /// The last eight bytes, as a number.
    pub(crate) fn low_bits(self) -> u64 {
        self.0[8..].iter().fold(0, |number, byte| (number << 8) | u64::from(*byte))
    }
}

/// A name-based UUID (version 5, RFC 9562).
pub(crate) fn version_5(namespace: [u8; 16], name: &str) -> [u8; 16] {
    let mut context = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    context.update(&namespace);
    context.update(name.as_bytes());
    let hash = context.finish();
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&hash.as_ref()[..16]);
    uuid[6] = uuid[6] & 0x0f | 0x50;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_those_of_the_standard() {
        // The example of RFC 9562, appendix A.4.
        let dns = [
            0x6b, 0xa7, 0xb8, 0x10, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4,
            0x30, 0xc8,
        ];
        let uuid = SmbiosUuid(version_5(dns, "www.example.com"));
        assert_eq!(uuid.to_string(), "2ed6657d-e927-568b-95e1-2665a8aea6a2");
        let json = serde_json::to_string(&uuid).unwrap();
        assert_eq!(json, "\"2ed6657d-e927-568b-95e1-2665a8aea6a2\"");
        assert_eq!(serde_json::from_str::<SmbiosUuid>(&json).unwrap(), uuid);
        for text in ["\"\"", "\"2ed6657de927-568b-95e1-2665a8aea6a2-\"", "7"] {
            assert!(serde_json::from_str::<SmbiosUuid>(text).is_err(), "{text}");
        }
    }
}
