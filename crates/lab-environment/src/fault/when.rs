//! What a rule fits.

use std::net::IpAddr;
use std::time::Duration;

use regex_lite::Regex;

/// What a rule fits. What is not said fits everything; without any of the keys that say otherwise, a rule
/// is about calls to Proxmox.
#[derive(Clone, Debug, Default)]
pub struct When {
    /// `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: Option<String>,
    pub path: Option<PathPattern>,
    /// A kind of task, such as `qmcreate`: the rule is about tasks then, and not about calls.
    pub task: Option<String>,
    pub vmid: Option<u32>,
    pub host: Option<String>,
    /// A path of the Image Factory: the rule is about requests there.
    pub factory: Option<PathPattern>,
    /// A method of the Talos API, such as `Bootstrap`: the rule is about calls there.
    pub talos: Option<String>,
    /// A path of the Kubernetes API: the rule is about requests there.
    pub kube: Option<PathPattern>,
    /// The rule is about boots of nodes.
    pub boot: Option<Boot>,
    /// A node, by the name of its VM, its id, or an address.
    pub node: Option<String>,
    /// The rule is about a moment, this long after it was made.
    pub after: Option<Duration>,
}

/// Which boots are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boot {
    Any,
    /// Without a config on the disk: the first ones of a machine.
    Bare,
    /// The first with what an upgrade installed.
    Upgraded,
}

/// A path, as the API in question has it.
#[derive(Clone, Debug)]
pub enum PathPattern {
    /// `/nodes/{node}/qemu/*/config`: braces and `*` are one part, `**` at the end is all the rest.
    Parts(Vec<String>),
    /// What begins with `^` is a regular expression.
    Regex(Regex),
}

/// Something that happens, as rules see it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sight<'a> {
    pub place: Place<'a>,
    pub method: &'a str,
    pub vmid: Option<u32>,
    pub host: &'a str,
    pub node: Option<Machine<'a>>,
}

/// Where it happens.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// A path of Proxmox, below `/api2/json`.
    Proxmox(&'a str),
    /// A kind of task.
    Task(&'a str),
    /// A path of the Image Factory.
    Factory(&'a str),
    /// A method with its service: `/machine.MachineService/Bootstrap`.
    Talos(&'a str),
    /// A path of the Kubernetes API.
    Kube(&'a str),
    Boot(BootSight),
}

#[derive(Clone, Copy, Debug, Default)]
pub struct BootSight {
    pub is_bare: bool,
    pub is_upgraded: bool,
}

/// A node, and what it is called.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    pub vmid: u32,
    pub name: &'a str,
    pub addresses: &'a [IpAddr],
}

impl Default for Place<'_> {
    fn default() -> Self {
        Self::Proxmox("")
    }
}

impl Machine<'_> {
    /// Whether this name is one of its names.
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
            Some(at) if at + 1 < parts.len() => Err("`**` is only known at the end".to_owned()),
            _ => Ok(Self::Parts(parts)),
        }
    }

    fn fits(&self, path: &str) -> bool {
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

/// Whether a method is meant by a name: `Bootstrap`, `MachineService/Bootstrap`, the whole of it, or `*`.
pub fn is_method(wanted: &str, path: &str) -> bool {
    let (wanted, path) = (wanted.trim_start_matches('/'), path.trim_start_matches('/'));
    let ends = path.strip_suffix(wanted).map(|before| before.ends_with(['/', '.']));
    wanted == "*" || wanted == path || ends == Some(true)
}

impl When {
    pub(super) fn fits(&self, sight: &Sight<'_>) -> bool {
        let same = |wanted: &Option<String>, given: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(given))
        };
        let is_node = self
            .node
            .as_ref()
            .is_none_or(|wanted| sight.node.is_some_and(|node| node.is_called(wanted)));
        self.is_there(&sight.place)
            && is_node
            && same(&self.method, sight.method)
            && same(&self.host, sight.host)
            && (self.vmid.is_none() || self.vmid == sight.vmid)
    }

    fn is_there(&self, place: &Place<'_>) -> bool {
        match place {
            Place::Proxmox(path) => {
                self.is_about_proxmox() && self.path.as_ref().is_none_or(|own| own.fits(path))
            }
            Place::Task(kind) => {
                self.task.as_ref().is_some_and(|wanted| wanted == "*" || wanted == kind)
            }
            Place::Factory(path) => self.factory.as_ref().is_some_and(|own| own.fits(path)),
            Place::Talos(path) => self.talos.as_ref().is_some_and(|own| is_method(own, path)),
            Place::Kube(path) => self.kube.as_ref().is_some_and(|own| own.fits(path)),
            Place::Boot(seen) => self.boot.is_some_and(|wanted| match wanted {
                Boot::Any => true,
                Boot::Bare => seen.is_bare,
                Boot::Upgraded => seen.is_upgraded,
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
    fn methods_have_short_names() {
        let path = "/machine.MachineService/Bootstrap";
        for name in ["*", "Bootstrap", "MachineService/Bootstrap", path, &path[1..]] {
            assert!(is_method(name, path), "{name}");
        }
        for name in ["bootstrap", "strap", "Service/Bootstrap", "LifecycleService/Bootstrap", ""] {
            assert!(!is_method(name, path), "{name}");
        }
    }

    #[test]
    fn nodes_have_three_names() {
        let addresses = ["10.0.0.11".parse().unwrap()];
        let node = Machine { vmid: 111, name: "cp-1", addresses: &addresses };
        for name in ["cp-1", "111", "10.0.0.11"] {
            assert!(node.is_called(name), "{name}");
        }
        for name in ["cp-11", "11", "10.0.0.1", ""] {
            assert!(!node.is_called(name), "{name}");
        }
    }
}
