//! Who may do what on the Talos API: the organizations of a client certificate.

use std::fmt;
use std::str::FromStr;

/// A role of the Talos API. Displays as it stands in certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    Admin,
    Operator,
    Reader,
    EtcdBackup,
    Impersonator,
    /// Since Talos 1.13.
    ImageVerifier,
    /// Since Talos 1.13.
    MetaWriter,
}

/// A name that is no role.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no role `{name}`; there are {}", Role::ALL.map(|role| role.to_string()).join(", "))]
pub struct UnknownRole {
    name: String,
}

impl Role {
    pub const ALL: [Self; 7] = [
        Self::Admin,
        Self::Operator,
        Self::Reader,
        Self::EtcdBackup,
        Self::Impersonator,
        Self::ImageVerifier,
        Self::MetaWriter,
    ];
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Admin => "os:admin",
            Self::Operator => "os:operator",
            Self::Reader => "os:reader",
            Self::EtcdBackup => "os:etcd:backup",
            Self::Impersonator => "os:impersonator",
            Self::ImageVerifier => "os:image:verifier",
            Self::MetaWriter => "os:meta:writer",
        })
    }
}

impl FromStr for Role {
    type Err = UnknownRole;

    /// Reads `os:reader`, and `reader` for short.
    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        let full = if text.starts_with("os:") { text.to_owned() } else { format!("os:{text}") };
        let found = Self::ALL.into_iter().find(|role| role.to_string() == full);
        found.ok_or_else(|| UnknownRole { name: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_read_as_they_are_written() {
        for role in Role::ALL {
            assert_eq!(role.to_string().parse(), Ok(role));
        }
        assert_eq!("etcd:backup".parse(), Ok(Role::EtcdBackup));
        assert!("root".parse::<Role>().unwrap_err().to_string().contains("os:admin"));
    }
}
