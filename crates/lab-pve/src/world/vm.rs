use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Option and value, as the configuration file has them.
pub type Config = BTreeMap<String, String>;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Vm {
    pub node: String,
    /// `description`, `lock`, `template`, `parent` and the drives are options like any other.
    pub config: Config,
    /// Changes that wait for the next start.
    pub pending: Config,
    pub pending_delete: BTreeMap<String, PendingDelete>,
    pub snapshots: BTreeMap<String, Snapshot>,
    #[serde(default)]
    pub guest: Guest,
    /// A lab that is started again finds its guests switched off.
    #[serde(skip)]
    pub run: Option<Run>,
}

/// How an option is to go: its volume stays as `unusedN`, or is destroyed too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PendingDelete {
    Detach,
    Destroy,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// Holds `snaptime`, `parent`, `description` too, as the file's section does.
    pub config: Config,
}

/// A guest that is switched on.
#[derive(Clone, Debug)]
pub struct Run {
    /// In seconds since 1970.
    pub since: u64,
    pub pid: u32,
    pub paused: bool,
    /// The configuration it was started with.
    pub config: Config,
    /// Answers of its guest agent; none as long as nothing in the guest answers.
    pub agent: Option<Agent>,
    /// Drives that the guest does not let go of while it runs.
    pub held_drives: BTreeSet<String>,
}

/// What is installed in a VM, where the scenario says it: how it behaves whenever it runs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Guest {
    pub agent: Option<Agent>,
    pub held_drives: BTreeSet<String>,
}

/// What the guest agent tells.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Agent {
    pub interfaces: Vec<AgentInterface>,
    pub hostname: String,
}

/// A network interface of a guest: name, MAC, and addresses with their prefix length.
pub(crate) type AgentInterface = (String, String, Vec<(std::net::IpAddr, u8)>);

impl Vm {
    pub fn is_running(&self) -> bool {
        self.run.is_some()
    }

    pub(crate) fn is_template(&self) -> bool {
        self.config.get("template").is_some_and(|value| value == "1")
    }

    pub(crate) fn lock(&self) -> Option<&str> {
        self.config.get("lock").map(String::as_str)
    }
}
