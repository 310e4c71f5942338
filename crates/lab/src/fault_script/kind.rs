//! Kind of events that a fault matches, and the keys that are valid for this kind.

use serde_json::{Map, Value as Json};
use talmox_lab_environment::fault::is_method;
use talmox_lab_talos::method_names;

use super::CONDITION_KEYS;
use super::value::{EntryError, text};

/// Kind of events that a fault matches.
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

/// Keys that determine which kind of events a fault matches.
const KIND_KEYS: [(&str, Kind); 6] = [
    ("task", Kind::Task),
    ("factory", Kind::Factory),
    ("talos", Kind::Talos),
    ("kube", Kind::Kube),
    ("boot", Kind::Boot),
    ("after", Kind::Moment),
];

/// Actions that do not affect the matched event itself. They are valid with every kind.
const GENERAL_ACTIONS: [&str; 10] =
    ["full", "down", "revoke", "crash", "unplug", "freeze", "fill", "slow", "partition", "heal"];

impl Kind {
    /// Kind of an entry. The keys of the entry determine it, or else its action.
    pub(super) fn of(entry: &Map<String, Json>, does: &str) -> Result<Self, EntryError> {
        let mut said = KIND_KEYS.iter().filter(|(key, _)| entry.contains_key(*key));
        match (said.next(), said.next()) {
            (Some((one, _)), Some((other, _))) => {
                return Err(format!(
                    "a fault matches one kind of event, not `{one}` and `{other}`"
                )
                .into());
            }
            (Some((_, kind)), None) => {
                let is_true = *kind != Self::Boot || entry["boot"] == true;
                return if is_true { Ok(*kind) } else { Err("`boot` must be true".into()) };
            }
            _ => {}
        }
        let is_of_node = entry.contains_key("node");
        match does {
            "stall" | "revert" | "clock" => Ok(Self::Boot),
            "fill" | "slow" if is_of_node => Ok(Self::Boot),
            _ if is_of_node => Err(EntryError::new(
                "a fault of a node needs a condition",
                "add `boot: true`, `after: 30s`, `talos: METHOD` or `kube: PATH`",
            )),
            _ => Ok(Self::Proxmox),
        }
    }

    /// Checks that all keys of the entry are valid with this kind.
    pub(super) fn check(self, entry: &Map<String, Json>, does: &str) -> Result<(), EntryError> {
        let own: &[&str] = match self {
            Self::Proxmox => &["method", "path", "vmid", "host", "nth", "times"],
            Self::Task => &["task", "vmid", "host", "nth", "times"],
            Self::Factory => &["factory", "method", "nth", "times"],
            Self::Talos => &["talos", "node", "nth", "times"],
            Self::Kube => &["kube", "method", "node", "nth", "times"],
            Self::Boot => &["boot", "node", "nth", "times"],
            Self::Moment => &["after", "node"],
        };
        let invalid =
            CONDITION_KEYS.iter().find(|key| entry.contains_key(**key) && !own.contains(key));
        if let Some(invalid) = invalid {
            let hint = format!("valid keys: {}", own.join(", "));
            return Err(EntryError::new(
                format!("a fault of {} cannot have the key `{invalid}`", self.subject()),
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
        if does == "impostor" || GENERAL_ACTIONS.contains(&does) || further.contains(&does) {
            return Ok(());
        }
        let known = [further, &GENERAL_ACTIONS, &["impostor"]].concat().join(", ");
        let message = format!("`{does}` cannot be applied to {}", self.subject());
        Err(EntryError::new(message, format!("valid actions: {known}")))
    }

    /// HTTP methods that requests of this kind can have.
    pub(super) fn methods(self) -> &'static [&'static str] {
        match self {
            Self::Kube => &["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
            _ => &["GET", "HEAD", "POST", "PUT", "DELETE"],
        }
    }

    /// Noun for one event of this kind, for messages.
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

    /// Whether each event that the fault matches belongs to a node.
    pub(super) fn finds_node(self, entry: &Map<String, Json>) -> bool {
        match self {
            Self::Talos | Self::Kube | Self::Boot => true,
            Self::Moment => entry.contains_key("node"),
            _ => false,
        }
    }
}

/// Method of the Talos API that the entry names. An unknown method is an error.
pub(super) fn talos_method(entry: &Map<String, Json>) -> Result<Option<String>, EntryError> {
    let Some(wanted) = text(entry, "talos")? else { return Ok(None) };
    if wanted == "*" || method_names().any(|known| is_method(&wanted, known)) {
        return Ok(Some(wanted));
    }
    let short = |path: &'static str| path.rsplit('/').next().unwrap_or(path);
    let known: Vec<&str> = method_names().map(short).collect();
    let message = format!("the Talos API has no method `{wanted}`");
    Err(EntryError::unknown(message, &wanted, &known))
}
