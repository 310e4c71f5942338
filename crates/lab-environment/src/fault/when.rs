//! Conditions of fault rules.

use std::net::IpAddr;
use std::time::Duration;

use regex_lite::Regex;

/// Condition of a rule. A field that is `None` matches everything. If no field selects another kind of event, the rule matches
/// calls to Proxmox.
#[derive(Clone, Debug, Default)]
pub struct When {
    /// HTTP method: `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: Option<String>,
    pub path: Option<PathPattern>,
    /// Type of a Proxmox task such as `qmcreate`; with this field, the rule matches tasks.
    pub task: Option<String>,
    pub vmid: Option<u32>,
    pub host: Option<String>,
    /// Path of the Image Factory; with this field, the rule matches requests to the Image Factory.
    pub factory: Option<PathPattern>,
    /// Method of the Talos API such as `Bootstrap`; with this field, the rule matches calls of that method.
    pub talos: Option<String>,
    /// Path of the Kubernetes API; with this field, the rule matches requests to the Kubernetes API.
    pub kube: Option<PathPattern>,
    /// Kind of boot; with this field, the rule matches boots of nodes.
    pub boot: Option<Boot>,
    /// Node by the name of its VM, its vmid, or an address.
    pub node: Option<String>,
    /// Delay after which the rule acts once; with this field, the rule needs no call.
    pub after: Option<Duration>,
}

/// Kind of boot that a fault rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boot {
    Any,
    /// Boot without a config on the disk.
    Bare,
    /// First boot after an upgrade.
    Upgraded,
}

/// Pattern that a fault rule compares with the path of a request.
#[derive(Clone, Debug)]
pub enum PathPattern {
    /// Path with wildcards, such as `/nodes/{node}/qemu/*/config`. Braces and `*` match one segment, `**` at the end matches
    /// all remaining segments.
    Parts(Vec<String>),
    /// Regular expression, for a pattern that starts with `^`.
    Regex(Regex),
}

/// Event that is compared with the fault rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct FaultEvent<'a> {
    pub source: EventSource<'a>,
    pub method: &'a str,
    pub vmid: Option<u32>,
    pub host: &'a str,
    pub node: Option<NodeNames<'a>>,
}

/// API of an event, with the path, method or task type.
#[derive(Clone, Copy, Debug)]
pub enum EventSource<'a> {
    /// Path of a Proxmox call, below `/api2/json`.
    Proxmox(&'a str),
    /// Type of a Proxmox task, such as `qmcreate`.
    Task(&'a str),
    /// Path of a request to the Image Factory.
    Factory(&'a str),
    /// Talos method with its service: `/machine.MachineService/Bootstrap`.
    Talos(&'a str),
    /// Path of a request to the Kubernetes API.
    Kube(&'a str),
    Boot(BootFacts),
}

#[derive(Clone, Copy, Debug, Default)]
pub struct BootFacts {
    pub is_bare: bool,
    pub is_upgraded: bool,
}

/// Simulated node with the names by which fault rules can refer to it.
#[derive(Clone, Copy, Debug)]
pub struct NodeNames<'a> {
    pub vmid: u32,
    pub name: &'a str,
    pub addresses: &'a [IpAddr],
}

impl Default for EventSource<'_> {
    fn default() -> Self {
        Self::Proxmox("")
    }
}

impl NodeNames<'_> {
    /// Whether `name` is the name, the vmid or an address of the node.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name
            || self.vmid.to_string() == name
            || name.parse().is_ok_and(|address| self.addresses.contains(&address))
    }
}

impl PathPattern {
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with('^') {
            return Regex::new(text).map(Self::Regex).map_err(|error| error.to_string());
        }
        let parts: Vec<String> =
            text.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        match parts.iter().position(|part| part == "**") {
            Some(at) if at + 1 < parts.len() => {
                Err("`**` is valid only at the end of a path".to_owned())
            }
            _ => Ok(Self::Parts(parts)),
        }
    }

    fn matches(&self, path: &str) -> bool {
        let wanted = match self {
            Self::Regex(regex) => return regex.is_match(path),
            Self::Parts(parts) => parts,
        };
        let mut given = path.split('/').filter(|part| !part.is_empty());
        for part in wanted {
            if part == "**" {
                return true;
            }
            let Some(given) = given.next() else { return false };
            let is_any = part == "*" || (part.starts_with('{') && part.ends_with('}'));
            if !is_any && part != given {
                return false;
            }
        }
        given.next().is_none()
    }
}

/// Whether the method of a fault rule matches the path of a call. The method may be `Bootstrap`, `MachineService/Bootstrap`,
/// the full path, or `*`.
pub fn is_method(wanted: &str, path: &str) -> bool {
    let (wanted, path) = (wanted.trim_start_matches('/'), path.trim_start_matches('/'));
    let ends = path.strip_suffix(wanted).map(|before| before.ends_with(['/', '.']));
    wanted == "*" || wanted == path || ends == Some(true)
}

impl When {
    pub(super) fn matches(&self, event: &FaultEvent<'_>) -> bool {
        let same = |wanted: &Option<String>, given: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(given))
        };
        let is_node = self
            .node
            .as_ref()
            .is_none_or(|wanted| event.node.is_some_and(|node| node.is_called(wanted)));
        self.matches_source(&event.source)
            && is_node
            && same(&self.method, event.method)
            && same(&self.host, event.host)
            && (self.vmid.is_none() || self.vmid == event.vmid)
    }

    fn matches_source(&self, source: &EventSource<'_>) -> bool {
        match source {
            EventSource::Proxmox(path) => {
                self.is_about_proxmox() && self.path.as_ref().is_none_or(|own| own.matches(path))
            }
            EventSource::Task(kind) => {
                self.task.as_ref().is_some_and(|wanted| wanted == "*" || wanted == kind)
            }
            EventSource::Factory(path) => {
                self.factory.as_ref().is_some_and(|own| own.matches(path))
            }
            EventSource::Talos(path) => self.talos.as_ref().is_some_and(|own| is_method(own, path)),
            EventSource::Kube(path) => self.kube.as_ref().is_some_and(|own| own.matches(path)),
            EventSource::Boot(boot) => self.boot.is_some_and(|wanted| match wanted {
                Boot::Any => true,
                Boot::Bare => boot.is_bare,
                Boot::Upgraded => boot.is_upgraded,
            }),
        }
    }

    fn is_about_proxmox(&self) -> bool {
        self.task.is_none()
            && self.factory.is_none()
            && self.talos.is_none()
            && self.kube.is_none()
            && self.boot.is_none()
            && self.after.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn talos_methods_match_by_short_name() {
        let path = "/machine.MachineService/Bootstrap";
        for name in ["*", "Bootstrap", "MachineService/Bootstrap", path, &path[1..]] {
            assert!(is_method(name, path), "{name}");
        }
        for name in ["bootstrap", "strap", "Service/Bootstrap", "LifecycleService/Bootstrap", ""] {
            assert!(!is_method(name, path), "{name}");
        }
    }

    #[test]
    fn nodes_match_by_name_vmid_and_address() {
        let addresses = ["10.0.0.11".parse().unwrap()];
        let node = NodeNames { vmid: 111, name: "cp-1", addresses: &addresses };
        for name in ["cp-1", "111", "10.0.0.11"] {
            assert!(node.is_called(name), "{name}");
        }
        for name in ["cp-11", "11", "10.0.0.1", ""] {
            assert!(!node.is_called(name), "{name}");
        }
    }
}
