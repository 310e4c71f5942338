//! Roles of the Talos API. The organizations of a client certificate are its roles.

use std::fmt;
use std::str::FromStr;

/// Role of the Talos API. Its text form is the one in certificates, such as `os:admin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientRole {
    Admin,
    Operator,
    Reader,
    EtcdBackup,
    Impersonator,
    /// May verify images; since Talos 1.13.
    ImageVerifier,
    /// May write META keys; since Talos 1.13.
    MetaWriter,
}

/// Error for a name that is not a role.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a role of the Talos API; use one of {}", ClientRole::ALL.map(|role| role.to_string()).join(", "))]
pub struct UnknownRole {
    name: String,
}

impl ClientRole {
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

impl fmt::Display for ClientRole {
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

impl FromStr for ClientRole {
    type Err = UnknownRole;

    /// Parses the full form `os:reader` and the short form `reader`.
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
    fn roles_round_trip() {
        for role in ClientRole::ALL {
            assert_eq!(role.to_string().parse(), Ok(role));
        }
        assert_eq!("etcd:backup".parse(), Ok(ClientRole::EtcdBackup));
        assert!("root".parse::<ClientRole>().unwrap_err().to_string().contains("os:admin"));
    }
}
