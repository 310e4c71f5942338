//! Sizes. A number without a unit is in MiB for memory and in GiB for disks. `G` means GiB, as in Proxmox.

use std::fmt;

use serde_json::{Value as Json, json};
use talmox_yaml::Scalar;

use crate::language::Leaf;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// Amount of memory in bytes. It is always a whole number of MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Memory(u64);

/// Size of a disk in bytes. It is always a whole number of MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DiskSize(u64);

impl Memory {
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib * MIB)
    }

    pub const fn mib(self) -> u64 {
        self.0 / MIB
    }
}

impl DiskSize {
    pub const fn from_gib(gib: u64) -> Self {
        Self(gib * GIB)
    }

    pub const fn bytes(self) -> u64 {
        self.0
    }
}

/// Parses `40`, `40G`, `40GiB`, `1T`, `512M`.
fn parse(text: &str, bare_unit: u64) -> Result<u64, Option<String>> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim_end();
    let unit = text[digits.len()..].trim_start();
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        let is_fraction = digits.parse::<f64>().is_ok_and(|n| n > 0.0);
        return Err(is_fraction.then(|| "the size is not a whole number".to_owned()));
    }
    let factor = match unit {
        "" => bare_unit,
        "M" | "Mi" | "MiB" => MIB,
        "G" | "Gi" | "GiB" => GIB,
        "T" | "Ti" | "TiB" => TIB,
        _ => {
            return Err(Some(format!(
                "`{unit}` is not a unit of size: use M, G or T (MiB, GiB, TiB)"
            )));
        }
    };
    digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor))
        .filter(|bytes| *bytes <= 1 << 60)
        .ok_or_else(|| Some("the size is too large".to_owned()))
}

fn show(bytes: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if bytes.is_multiple_of(TIB) && bytes > 0 {
        write!(f, "{} TiB", bytes / TIB)
    } else if bytes.is_multiple_of(GIB) {
        write!(f, "{} GiB", bytes / GIB)
    } else {
        write!(f, "{} MiB", bytes / MIB)
    }
}

fn schema() -> Json {
    json!({
        "type": ["integer", "string"],
        "minimum": 0,
        "pattern": "^[0-9]+ ?([MGT](i|iB)?)?$",
    })
}

macro_rules! size {
    ($name:ident, $expected:literal, $bare_unit:expr) => {
        impl Leaf for $name {
            const EXPECTED: &'static str = $expected;

            fn parse(scalar: &Scalar) -> Result<Self, Option<String>> {
                parse(&scalar.text, $bare_unit).map(Self)
            }

            fn schema() -> Json {
                schema()
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                show(self.0, f)
            }
        }
    };
}

size!(Memory, "an amount of memory such as `8192` (MiB) or `8G`", MIB);
size!(DiskSize, "a disk size such as `40` (GiB) or `40G`", GIB);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_without_a_unit_are_mib_or_gib() {
        assert_eq!(parse("8192", MIB), Ok(8192 * MIB));
        assert_eq!(parse("40", GIB), Ok(40 * GIB));
        assert_eq!(parse("40G", MIB), Ok(40 * GIB));
        assert_eq!(parse("40 GiB", MIB), Ok(40 * GIB));
        assert_eq!(parse("2T", GIB), Ok(2 * TIB));
    }

    #[test]
    fn other_units_are_rejected_with_a_reason() {
        for bad in
            ["40GB", "40 gigs", "40g", "1.5T", "99999999999999999999", "18446744073709551615T"]
        {
            assert!(matches!(parse(bad, GIB), Err(Some(_))), "{bad}");
        }
        for bad in ["", "G", "four", "-1", "-"] {
            assert_eq!(parse(bad, GIB), Err(None), "{bad}");
        }
    }

    #[test]
    fn sizes_are_shown_in_the_largest_whole_unit() {
        assert_eq!(Memory::from_mib(8192).to_string(), "8 GiB");
        assert_eq!(Memory::from_mib(1536).to_string(), "1536 MiB");
        assert_eq!(DiskSize::from_gib(2048).to_string(), "2 TiB");
    }
}
