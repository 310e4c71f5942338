use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::BadId;

/// Declares a type for a checked name. Clones are cheap, because every request contains names.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $rule:literal, $accepts:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                let accepts: fn(&str) -> bool = $accepts;
                if accepts(text) {
                    Ok(Self(text.into()))
                } else {
                    Err(BadId::new(text, $what, $rule))
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        json_text!($name);
    };
}

name!(
    /// Name of a host of the Proxmox cluster.
    NodeName,
    "a node name",
    "letters, digits and `-`, starting and ending with a letter or digit",
    |text| starts_and_ends(text, is_alphanumeric, is_alphanumeric) && all(text, b"-")
);
name!(
    /// Name of a storage.
    StorageId,
    "a storage id",
    "at least two of letters, digits and `.`, `_`, `-`, starting with a letter",
    |text| text.len() >= 2 && starts_and_ends(text, is_letter, is_alphanumeric) && all(text, b"._-")
);
name!(
    /// Name of a pool. The pool `a/b/c` is nested in `a/b`, which is nested in `a`.
    PoolId,
    "a pool id",
    "letters, digits and `.`, `_`, `-`, in up to three levels separated by `/`",
    |text| {
        text.split('/').count() <= 3
            && text.split('/').all(|level| !level.is_empty() && all(level, b"._-"))
    }
);
name!(
    /// Name of a snapshot, a mapping or an HA rule.
    ConfigId,
    "a name",
    "at least two of letters, digits and `_`, `-`, starting with a letter",
    |text| text.len() >= 2 && starts_and_ends(text, is_letter, |_| true) && all(text, b"_-")
);
name!(
    /// Name of a bridge or virtual network that a NIC is attached to.
    BridgeName,
    "a bridge",
    "letters, digits and `-`, `_`, `.`",
    |text| !text.is_empty() && all(text, b"-_.")
);
name!(
    /// Name of a file on a storage. It contains only characters that Proxmox does not replace.
    FileName,
    "a file name",
    "letters, digits and `.`, `_`, `-`, not starting with `.`",
    |text| !text.is_empty() && !text.starts_with('.') && all(text, b"._-")
);
name!(
    /// Digest of a config. A change request with a digest fails if the config has changed since the digest was read.
    Digest,
    "a digest",
    "up to 64 hexadecimal digits",
    |text| {
        (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    }
);
name!(
    /// Slot of a disk, such as `scsi0`, `efidisk0` or `unused3`.
    DiskSlot,
    "a disk",
    "one of ide0-3, sata0-5, scsi0-30, virtio0-15, efidisk0, tpmstate0, unused0-255",
    |text| {
        let bus = text.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = &text[bus.len()..];
        let is_plain = number == "0" || !number.starts_with('0');
        let Ok(number) = number.parse::<u16>() else { return false };
        let last = match bus {
            "ide" => 3,
            "sata" => 5,
            "scsi" => 30,
            "virtio" => 15,
            "efidisk" | "tpmstate" => 0,
            "unused" => 255,
            _ => return false,
        };
        is_plain && number <= last
    }
);

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic()
}

fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn starts_and_ends(text: &str, start: fn(u8) -> bool, end: fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().copied().is_some_and(start) && bytes.last().copied().is_some_and(end)
}

/// Whether the text contains only letters, digits and `others`.
fn all(text: &str, others: &[u8]) -> bool {
    text.bytes().all(|byte| is_alphanumeric(byte) || others.contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: FromStr<Err = BadId> + fmt::Display>(good: &[&str], bad: &[&str]) {
        for text in good {
            assert_eq!(text.parse::<T>().unwrap().to_string(), *text);
        }
        for text in bad {
            let error = text.parse::<T>().err().unwrap_or_else(|| panic!("{text} passed"));
            assert_eq!(error.text, *text);
        }
    }

    #[test]
    fn names_follow_the_rules_of_proxmox() {
        check::<NodeName>(&["pve1", "a", "a-b", "1"], &["", "-a", "a-", "a.b", "a/b", "ä"]);
        check::<StorageId>(&["local-lvm", "ab", "a.b_c"], &["", "a", "1a", "a-", "a b", "a:b"]);
        check::<PoolId>(&["talos", "a/b/c", "1"], &["", "a/", "/a", "a//b", "a/b/c/d", "a b"]);
        check::<ConfigId>(&["gpu", "a_", "rule-1"], &["", "a", "1a", "a.b"]);
        check::<BridgeName>(&["vmbr0", "eth0.40"], &["", "a,b", "a b"]);
        check::<FileName>(&["talos-v1.11.2.qcow2"], &["", ".x", "a/b", "a\"b", "a\r\nb", "a+b"]);
        check::<Digest>(&["0a", "AA00"], &["", "xyz", &"0".repeat(65)]);
        check::<DiskSlot>(
            &["scsi0", "scsi30", "efidisk0", "unused255", "ide3"],
            &["", "scsi", "scsi31", "scsi00", "0", "efidisk1", "floppy0", "scsi-1", "scsi+1"],
        );
    }
}
