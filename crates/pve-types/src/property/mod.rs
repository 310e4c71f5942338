//! Property strings: comma-separated `key=value` pairs. One value may have no key.
//!
//! Each option that talmox uses has its own type. The type writes one notation, and parses every notation of Proxmox.
//! Unknown keys are kept.

mod boot;
mod drive;
mod hostpci;
mod ipconfig;
mod net;
mod size;
mod smbios;
mod tags;

use std::collections::BTreeMap;
use std::fmt;

pub use boot::{Agent, BootOrder};
pub use drive::{Drive, DriveSource};
pub use hostpci::{HostPci, PciSource};
pub use ipconfig::{IpConfig, Ipv4Config, Ipv6Config};
pub use net::Net;
pub use size::{GIB, parse_size};
pub use smbios::Smbios;
pub use tags::Tags;

/// Parsed property string.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties(BTreeMap<String, String>);

impl Properties {
    /// Parses a text. A value without a key gets the key `default_key`, or the empty key.
    pub fn parse(text: &str, default_key: Option<&str>) -> Self {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let pair = |part: &str| match part.split_once('=') {
            Some((key, value)) => (key.trim().to_owned(), value.trim().to_owned()),
            None => (default_key.unwrap_or_default().to_owned(), part.to_owned()),
        };
        Self(parts.map(pair).collect())
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    pub fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).and_then(truthy)
    }

    pub fn set(&mut self, key: &str, value: impl fmt::Display) {
        self.0.insert(key.to_owned(), value.to_string());
    }

    pub fn remove(&mut self, key: &str) -> Option<String> {
        self.0.remove(key)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

impl fmt::Display for Properties {
    /// Writes all pairs with their keys, sorted by key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<String> = self.iter().map(|(key, value)| format!("{key}={value}")).collect();
        f.write_str(&pairs.join(","))
    }
}

/// Value of a flag in a property string; `None` if the text is not a flag.
pub(crate) fn truthy(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "on" | "yes" | "true" => Some(true),
        "0" | "off" | "no" | "false" => Some(false),
        _ => None,
    }
}

/// Joins the parts that are present, separated by commas.
fn join(parts: impl IntoIterator<Item = Option<String>>) -> String {
    parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_may_have_no_key() {
        let properties = Properties::parse("host,flags=+aes;+pcid", Some("cputype"));
        assert_eq!(properties.get("cputype"), Some("host"));
        assert_eq!(properties.to_string(), "cputype=host,flags=+aes;+pcid");
        assert_eq!(Properties::parse("", None), Properties::default());
        assert_eq!(Properties::parse("x, a = 1 ,", None).flag("a"), Some(true));
    }
}
