//! What a fault is about, and what goes with that.

use serde_json::{Map, Value as Json};
use talmox_lab_environment::fault::is_method;
use talmox_lab_talos::method_names;

use super::WHICH;
use super::value::{Wrong, text};

/// What a fault looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Proxmox,
    Task,
    Factory,
    Talos,
    Kube,
    Boot,
    Moment,
}

/// The keys that say it.
const SAYS: [(&str, Kind); 6] = [
    ("task", Kind::Task),
    ("factory", Kind::Factory),
    ("talos", Kind::Talos),
    ("kube", Kind::Kube),
    ("boot", Kind::Boot),
    ("after", Kind::Moment),
];

/// What changes something beside the call, and can happen with anything.
const ANYWHERE: [&str; 10] =
    ["full", "down", "revoke", "crash", "unplug", "freeze", "fill", "slow", "partition", "heal"];

impl Kind {
    /// As its keys say it, or as the action does.
    pub(super) fn of(entry: &Map<String, Json>, does: &str) -> Result<Self, Wrong> {
        let mut said = SAYS.iter().filter(|(key, _)| entry.contains_key(*key));
        match (said.next(), said.next()) {
            (Some((one, _)), Some((other, _))) => {
                return Err(format!("a fault is about one thing, not `{one}` and `{other}`").into());
            }
            (Some((_, kind)), None) => {
                let is_true = *kind != Self::Boot || entry["boot"] == true;
                return if is_true { Ok(*kind) } else { Err("`boot` is written true".into()) };
            }
            _ => {}
        }
        let is_of_node = entry.contains_key("node");
        match does {
            "stall" | "revert" | "clock" => Ok(Self::Boot),
            "fill" | "slow" if is_of_node => Ok(Self::Boot),
            _ if is_of_node => Err(Wrong::new(
                "a fault of a node says when",
                "add `boot: true`, `after: 30s`, `talos: METHOD` or `kube: PATH`",
            )),
            _ => Ok(Self::Proxmox),
        }
    }

    /// Whether all that the entry says goes with this.
    pub(super) fn check(self, entry: &Map<String, Json>, does: &str) -> Result<(), Wrong> {
        let own: &[&str] = match self {
            Self::Proxmox => &["method", "path", "vmid", "host", "nth", "times"],
            Self::Task => &["task", "vmid", "host", "nth", "times"],
            Self::Factory => &["factory", "method", "nth", "times"],
            Self::Talos => &["talos", "node", "nth", "times"],
            Self::Kube => &["kube", "method", "node", "nth", "times"],
            Self::Boot => &["boot", "node", "nth", "times"],
            Self::Moment => &["after", "node"],
        };
        let alien = WHICH.iter().find(|key| entry.contains_key(**key) && !own.contains(key));
        if let Some(alien) = alien {
            let hint = format!("it goes with {}", own.join(", "));
            return Err(Wrong::new(
                format!("a fault of {} has no `{alien}`", self.subject()),
                hint,
            ));
        }
        let further: &[&str] = match self {
            Self::Proxmox => &["refuse", "delay", "cut", "hang", "timeout", "lock"],
            Self::Task => &["delay", "fail", "unstarted", "lock"],
            Self::Factory => &["refuse", "delay", "cut", "hang", "truncate"],
            Self::Talos | Self::Kube => &["refuse", "delay", "cut", "hang"],
            Self::Boot => &["delay", "stall", "revert", "clock"],
            Self::Moment => &[],
        };
        if does == "impostor" || ANYWHERE.contains(&does) || further.contains(&does) {
            return Ok(());
        }
        let known = [further, &ANYWHERE, &["impostor"]].concat().join(", ");
        let message = format!("`{does}` does not happen to {}", self.subject());
        Err(Wrong::new(message, format!("to that happen {known}")))
    }

    /// The methods that requests have.
    pub(super) fn methods(self) -> &'static [&'static str] {
        match self {
            Self::Kube => &["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
            _ => &["GET", "HEAD", "POST", "PUT", "DELETE"],
        }
    }

    /// One of them.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Proxmox | Self::Talos => "call",
            Self::Task => "task",
            Self::Factory | Self::Kube => "request",
            Self::Boot => "boot",
            Self::Moment => "moment",
        }
    }

    fn subject(self) -> &'static str {
        match self {
            Self::Proxmox => "Proxmox's calls",
            Self::Task => "tasks",
            Self::Factory => "the factory",
            Self::Talos => "Talos calls",
            Self::Kube => "Kubernetes requests",
            Self::Boot => "boots",
            Self::Moment => "a moment",
        }
    }

    /// Whether it finds a node that things can happen to.
    pub(super) fn finds_node(self, entry: &Map<String, Json>) -> bool {
        match self {
            Self::Talos | Self::Kube | Self::Boot => true,
            Self::Moment => entry.contains_key("node"),
            _ => false,
        }
    }
}

/// A method of the Talos API that there is.
pub(super) fn talos_method(entry: &Map<String, Json>) -> Result<Option<String>, Wrong> {
    let Some(wanted) = text(entry, "talos")? else { return Ok(None) };
    if wanted == "*" || method_names().any(|known| is_method(&wanted, known)) {
        return Ok(Some(wanted));
    }
    let short = |path: &'static str| path.rsplit('/').next().unwrap_or(path);
    let known: Vec<&str> = method_names().map(short).collect();
    let message = format!("the Talos API has no method `{wanted}`");
    Err(Wrong::unknown(message, &wanted, &known))
}
