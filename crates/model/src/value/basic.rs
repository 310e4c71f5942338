//! Text, booleans, numbers, digests, paths and file modes.

use std::fmt;

use serde_json::{Value as Json, json};
use talmox_yaml::{Resolved, Scalar, Style};

use crate::language::Leaf;

impl Leaf for bool {
    const EXPECTED: &'static str = "`true` or `false`";

    fn parse(scalar: &Scalar) -> Result<Self, Option<String>> {
        match scalar.resolve() {
            Resolved::Bool(value) => Ok(value),
            _ => Err(None),
        }
    }

    fn schema() -> Json {
        json!({ "type": "boolean" })
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// Any scalar is a valid text. The text is not changed.
impl Leaf for String {
    const EXPECTED: &'static str = "text";

    fn parse(scalar: &Scalar) -> Result<Self, Option<String>> {
        Ok(scalar.text.clone())
    }

    fn schema() -> Json {
        json!({ "type": ["string", "number", "boolean"] })
    }

    fn show(&self) -> String {
        match self.lines().count() {
            0 | 1 => self.clone(),
            lines => format!("({lines} lines)"),
        }
    }
}

/// Value of a scalar that is a whole number, with or without quotes.
fn whole_number(scalar: &Scalar) -> Option<i128> {
    let plain = Scalar { text: scalar.text.trim().to_owned(), style: Style::Plain };
    match plain.resolve() {
        Resolved::Int(number) => Some(number),
        _ => None,
    }
}

/// Declares a whole number with limits, and optionally the reason for the lower limit.
macro_rules! number {
    (
        $(#[doc = $doc:literal])+
        $name:ident($type:ty), $expected:literal, $min:literal, $max:literal
        $(, below: $below:literal)?
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($type);

        impl $name {
            pub fn get(self) -> $type {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl Leaf for $name {
            const EXPECTED: &'static str = $expected;

            fn parse(scalar: &Scalar) -> Result<Self, Option<String>> {
                let number = whole_number(scalar).ok_or(None)?;
                $(if (0..$min).contains(&number) {
                    return Err(Some($below.to_owned()));
                })?
                if !($min..=$max).contains(&number) {
                    return Err(Some(format!("{number} is not between {} and {}", $min, $max)));
                }
                <$type>::try_from(number).map(Self).map_err(|_| None)
            }

            fn schema() -> Json {
                json!({
                    "type": ["integer", "string"],
                    "minimum": $min,
                    "maximum": $max,
                    "pattern": "^[0-9]+$",
                })
            }

            fn show(&self) -> String {
                self.0.to_string()
            }
        }
    };
}

number! {
    /// ID of a VM.
    VmId(u32), "a vmid such as `300`", 100, 999_999_999, below: "ids below 100 are reserved by Proxmox"
}

number! {
    /// Number of CPU cores.
    Cores(u32), "a number of cores such as `4`", 1, 8192
}

number! {
    /// Number of CPU sockets.
    Sockets(u32), "a number of sockets such as `2`", 1, 128
}

number! {
    /// Position of a VM in the start order of its host.
    StartOrder(u32), "a position such as `1`", 0, 1_000_000
}

number! {
    /// VLAN tag.
    VlanId(u16), "a VLAN id such as `40`", 1, 4094
}

number! {
    /// MTU of a network interface.
    Mtu(u32), "an MTU such as `1500`", 576, 65520
}

/// Range of vmids, including both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VmIdRange {
    pub first: u32,
    pub last: u32,
}

impl fmt::Display for VmIdRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl Leaf for VmIdRange {
    const EXPECTED: &'static str = "a range of vmids such as `300-399`";

    fn parse(scalar: &Scalar) -> Result<Self, Option<String>> {
        let (first, last) = scalar.text.split_once('-').ok_or(None)?;
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| None);
        let range = Self { first: number(first)?, last: number(last)? };
        if range.first < 100 {
            return Err(Some("vmids below 100 are reserved by Proxmox".to_owned()));
        }
        if range.last < range.first || range.last > 999_999_999 {
            return Err(Some(format!("{range} is not a range of vmids")));
        }
        Ok(range)
    }

    fn schema() -> Json {
        json!({ "type": "string", "pattern": "^[0-9]+ *- *[0-9]+$" })
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// Declares a SHA-256 digest in one of its notations.
macro_rules! digest {
    ($(#[doc = $doc:literal])+ $name:ident, $expected:literal, $pattern:literal, $clean:expr) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(pub [u8; 32]);

        impl $name {
            pub fn hex(&self) -> String {
                self.0.iter().map(|byte| format!("{byte:02x}")).collect()
            }
        }

        impl Leaf for $name {
            const EXPECTED: &'static str = $expected;

            fn parse(scalar: &Scalar) -> Result<Self, Option<String>> {
                let clean: fn(&str) -> String = $clean;
                let hex = clean(&scalar.text);
                if !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
                    return Err(None);
                }
                if hex.len() != 64 {
                    return Err(Some(format!("{} hex digits instead of 64", hex.len())));
                }
                let mut digest = [0; 32];
                for (byte, pair) in digest.iter_mut().zip(hex.as_bytes().chunks(2)) {
                    let pair = std::str::from_utf8(pair).map_err(|_| None)?;
                    *byte = u8::from_str_radix(pair, 16).map_err(|_| None)?;
                }
                Ok(Self(digest))
            }

            fn schema() -> Json {
                json!({ "type": "string", "pattern": $pattern })
            }

            fn show(&self) -> String {
                self.hex()
            }
        }
    };
}

digest! {
    /// SHA-256 fingerprint of a certificate, as Proxmox shows it.
    Fingerprint, "a SHA-256 fingerprint such as `AB:CD:…` (32 bytes)",
    "^([0-9A-Fa-f]{2}:?){31}[0-9A-Fa-f]{2}$", |text| text.replace(':', "")
}

digest! {
    /// ID of an Image Factory schematic.
    SchematicId, "the id of a schematic (64 hex digits)", "^[0-9a-f]{64}$", str::to_owned
}

digest! {
    /// SHA-256 checksum of a file.
    Checksum, "a SHA-256 checksum (64 hex digits)", "^(sha256:)?[0-9A-Fa-f]{64}$",
    |text| text.strip_prefix("sha256:").unwrap_or(text).to_owned()
}

/// Path of a file or folder; relative paths start at the folder of the file that contains them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePath(pub String);

impl Leaf for FilePath {
    const EXPECTED: &'static str = "the path of a file such as `patches/a.yaml`";

    fn parse(scalar: &Scalar) -> Result<Self, Option<String>> {
        if scalar.text.is_empty() || scalar.text.contains(['\0', '\n']) {
            return Err(None);
        }
        Ok(Self(scalar.text.clone()))
    }

    fn schema() -> Json {
        json!({ "type": "string", "minLength": 1 })
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

/// Permissions of a file, written in octal: `0644` or `"0644"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileMode(pub u16);

impl Leaf for FileMode {
    const EXPECTED: &'static str = "file permissions such as `0644`";

    fn parse(scalar: &Scalar) -> Result<Self, Option<String>> {
        let digits = scalar.text.strip_prefix("0o").unwrap_or(&scalar.text);
        if !(3..=4).contains(&digits.len()) {
            return Err(None);
        }
        u16::from_str_radix(digits, 8).map(Self).map_err(|_| None)
    }

    fn schema() -> Json {
        json!({ "type": ["string", "integer"], "pattern": "^(0o)?[0-7]{3,4}$" })
    }

    fn show(&self) -> String {
        format!("{:04o}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalar(text: &str) -> Scalar {
        Scalar { text: text.to_owned(), ..Scalar::default() }
    }

    #[test]
    fn numbers_have_limits() {
        assert_eq!(VmId::parse(&scalar("300")).unwrap().get(), 300);
        let quoted = Scalar { text: "300".to_owned(), style: Style::DoubleQuoted };
        assert_eq!(VmId::parse(&quoted).unwrap().get(), 300);
        assert_eq!(
            VmId::parse(&scalar("99")),
            Err(Some("ids below 100 are reserved by Proxmox".to_owned()))
        );
        assert!(matches!(VmId::parse(&scalar("99")), Err(Some(_))));
        assert!(matches!(VlanId::parse(&scalar("4095")), Err(Some(_))));
        assert_eq!(Cores::parse(&scalar("four")), Err(None));
        assert_eq!(Cores::parse(&scalar("2.5")), Err(None));
    }

    #[test]
    fn reversed_vmid_ranges_are_rejected() {
        assert_eq!(VmIdRange::parse(&scalar("300-399")).unwrap().to_string(), "300-399");
        for bad in ["300", "399-300", "1-50", "a-b", "300-"] {
            assert!(VmIdRange::parse(&scalar(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn fingerprints_are_32_bytes() {
        let good = vec!["AB"; 32].join(":");
        assert_eq!(Fingerprint::parse(&scalar(&good)).unwrap().0, [0xab; 32]);
        assert!(matches!(Fingerprint::parse(&scalar("AB:CD")), Err(Some(_))));
        assert_eq!(Fingerprint::parse(&scalar("AB:XY")), Err(None));
    }

    #[test]
    fn file_modes_are_octal_with_and_without_quotes() {
        assert_eq!(FileMode::parse(&scalar("0644")), Ok(FileMode(0o644)));
        assert_eq!(FileMode::parse(&scalar("755")), Ok(FileMode(0o755)));
        assert!(FileMode::parse(&scalar("0689")).is_err());
    }
}
