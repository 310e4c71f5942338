//! Names of nodes, hosts, storages and other objects. Each type has a rule for its allowed characters.

use std::fmt;

use serde_json::{Value as Json, json};
use talmox_yaml::Scalar;

use crate::language::Leaf;

/// Declares a type of name, with its rule.
macro_rules! name {
    ($(#[doc = $doc:literal])+ $name:ident, $expected:literal, $pattern:literal, $check:expr) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Leaf for $name {
            const EXPECTED: &'static str = $expected;

            fn parse(scalar: &Scalar) -> Result<Self, Option<String>> {
                let check: fn(&str) -> Result<(), String> = $check;
                if scalar.is_null() {
                    return Err(None);
                }
                check(&scalar.text).map_err(Some)?;
                Ok(Self(scalar.text.clone()))
            }

            fn schema() -> Json {
                json!({ "type": "string", "pattern": $pattern })
            }

            fn show(&self) -> String {
                self.0.clone()
            }
        }
    };
}

name! {
    /// Name of a node. It is also the name of the VM, the host name in the VM, and the name of the Kubernetes node.
    NodeName, "a host name such as `talos-cp-01`", "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", dns_label
}

name! {
    /// Name of a cluster.
    ClusterName, "a cluster name such as `home`", "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", dns_label
}

name! {
    /// Name of a class of nodes.
    ClassName, "the name of a class such as `gpu`", "^[A-Za-z0-9_.-]{1,63}$", |text| word(text, 63, "_.-")
}

name! {
    /// Name of a host of the Proxmox cluster.
    PveHost, "the name of a Proxmox host such as `pve1`", "^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$",
    |text| dns_label(&text.to_ascii_lowercase())
}

name! {
    /// Name of a Proxmox storage.
    Datastore, "the name of a storage such as `local-lvm`", "^[A-Za-z][A-Za-z0-9_.-]{0,98}[A-Za-z0-9]$",
    |text| {
        word(text, 100, "_.-")?;
        let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic());
        let ends_well = text.len() > 1 && text.ends_with(|c: char| c.is_ascii_alphanumeric());
        if starts_well && ends_well { Ok(()) } else {
            Err(format!("`{text}` is not a storage id: it must start with a letter and end with a letter or digit"))
        }
    }
}

name! {
    /// Name of a bridge or SDN network.
    Bridge, "the name of a bridge such as `vmbr0`", "^[A-Za-z0-9_.-]{1,15}$", |text| word(text, 15, "_.-")
}

name! {
    /// Name of a Proxmox resource pool. The levels of a nested pool are separated by `/`.
    Pool, "the name of a pool such as `talos`", "^[A-Za-z0-9_./-]{1,128}$", |text| word(text, 128, "_./-")
}

name! {
    /// Name of a PCI mapping of the Proxmox cluster.
    MappingName, "the name of a PCI mapping such as `rtx4090`", "^[A-Za-z][A-Za-z0-9_-]{1,127}$",
    |text| {
        word(text, 128, "_-")?;
        if text.len() > 1 && text.starts_with(|c: char| c.is_ascii_alphabetic()) { Ok(()) } else {
            Err(format!("`{text}` is not a mapping: it must start with a letter and have two characters or more"))
        }
    }
}

name! {
    /// Tag of a VM. Proxmox writes tags in lower case.
    Tag, "a tag such as `homelab`", "^[A-Za-z0-9_][A-Za-z0-9_+.-]{0,62}$",
    |text| {
        word(text, 63, "_+.-")?;
        if text.starts_with(['+', '.', '-']) {
            return Err(format!("`{text}` starts with a character that is not allowed at the start of a tag"));
        }
        Ok(())
    }
}

name! {
    /// Name of a Talos system extension.
    Extension, "an extension such as `siderolabs/qemu-guest-agent`", "^[A-Za-z0-9._-]{1,63}/[A-Za-z0-9._-]{1,120}$",
    |text| match text.split_once('/') {
        Some((vendor, name)) if word(vendor, 63, "_.-").is_ok() && word(name, 120, "_.-").is_ok() => Ok(()),
        _ => Err(format!("`{}` is not of the form vendor/name", shorten(text))),
    }
}

name! {
    /// Name of a Kubernetes namespace.
    NamespaceName, "a namespace such as `kube-system`", "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
    |text| dns_label(text).map_err(|_| {
        format!("`{}` is not a namespace: only lower-case letters, digits and `-` are allowed", shorten(text))
    })
}

name! {
    /// Name of a user volume, which Talos mounts at `/var/mnt/<name>`.
    VolumeName, "the name of a volume such as `longhorn`", "^[A-Za-z0-9-]{1,34}$", |text| word(text, 34, "-")
}

name! {
    /// DNS domain.
    DomainName, "a domain such as `lan` or `home.example`", "^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*\\.?$", domain
}

name! {
    /// Host name or address that is added to certificates.
    SubjectName, "a host name or an address such as `k8s.example.com`", "^[A-Za-z0-9_.:*-]{1,253}$",
    |text| match text.parse::<std::net::IpAddr>() {
        Ok(_) => Ok(()),
        Err(_) => domain(text.strip_prefix("*.").unwrap_or(text)),
    }
}

impl NodeName {
    /// Placeholder for a missing or invalid name, so that the other settings of the node can be checked. It is not a
    /// valid name.
    pub(crate) fn placeholder(number: usize) -> Self {
        Self(format!("#{number}"))
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(60).collect()
}

/// Checks the key of a Kubernetes label or annotation: a name, optionally with a domain and `/` before it.
pub(crate) fn label_key(text: &str) -> Result<(), String> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let problem = || format!("`{}` is not a key of Kubernetes labels", shorten(text));
    if let Some(prefix) = prefix
        && (domain(prefix).is_err() || prefix.ends_with('.') || prefix != prefix.to_lowercase())
    {
        return Err(problem());
    }
    label_word(name).filter(|()| !name.is_empty()).ok_or_else(problem)
}

/// Checks that the text is empty, or has up to 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both
/// ends.
fn label_word(text: &str) -> Option<()> {
    let is_end = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    let is_good = text.len() <= 63
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && is_end(text.chars().next())
        && is_end(text.chars().next_back());
    is_good.then_some(())
}

/// Checks the value of a Kubernetes label.
pub(crate) fn label_value(text: &str) -> Result<(), String> {
    let problem = || format!("`{}` is not a value of Kubernetes labels", shorten(text));
    label_word(text).ok_or_else(problem)
}

/// Checks that the text contains only letters, digits and the characters in `further`.
fn word(text: &str, longest: usize, further: &str) -> Result<(), String> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || further.contains(c);
    match text.chars().find(|c| !is_good(*c)) {
        Some(bad) => Err(format!(
            "`{}` contains {bad:?}, which is not allowed in such a name",
            shorten(text)
        )),
        None if text.is_empty() => Err("the name is empty".to_owned()),
        None if text.len() > longest => {
            Err(format!("the name is longer than {longest} characters"))
        }
        None => Ok(()),
    }
}

fn dns_label(text: &str) -> Result<(), String> {
    let shown = shorten(text);
    if text.bytes().any(|b| b.is_ascii_uppercase()) {
        return Err(format!("`{shown}` has upper-case letters: host names are lower case"));
    }
    word(text, 63, "-").map_err(|problem| {
        if text.contains(['.', '_']) {
            format!("`{shown}` is not a host name: only letters, digits and `-` are allowed")
        } else {
            problem
        }
    })?;
    if text.starts_with('-') || text.ends_with('-') {
        return Err(format!("`{shown}` starts or ends with `-`"));
    }
    Ok(())
}

fn domain(text: &str) -> Result<(), String> {
    if text.len() > 253 {
        return Err("the domain is longer than 253 characters".to_owned());
    }
    let text = text.strip_suffix('.').unwrap_or(text);
    text.split('.').try_for_each(|label| {
        dns_label(&label.to_ascii_lowercase())
            .map_err(|_| format!("`{}` is not a domain name", shorten(text)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names_are_dns_labels() {
        for good in ["a", "talos-cp-01", "0a", &"x".repeat(63)] {
            assert_eq!(dns_label(good), Ok(()), "{good}");
        }
        for bad in ["", "-a", "a-", "a_b", "a.b", "Talos", "ä", "a b", &"x".repeat(64)] {
            assert!(dns_label(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn extensions_have_a_vendor() {
        let parse =
            |text: &str| Extension::parse(&Scalar { text: text.to_owned(), ..Scalar::default() });
        assert!(parse("siderolabs/qemu-guest-agent").is_ok());
        for bad in ["qemu-guest-agent", "a/b/c", "/x", "x/", "a b/c"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn subject_names_are_addresses_or_domains() {
        let parse =
            |text: &str| SubjectName::parse(&Scalar { text: text.to_owned(), ..Scalar::default() });
        for good in ["10.0.0.1", "fd00::1", "k8s.example.com", "*.example.com"] {
            assert!(parse(good).is_ok(), "{good}");
        }
        assert!(parse("https://x").is_err());
    }
}
