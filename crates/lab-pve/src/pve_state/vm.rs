use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// VM config: options and values as in the config file.
pub type Config = BTreeMap<String, String>;

/// VM with its config, snapshots and current run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Vm {
    pub node: String,
    /// Current options, including `description`, `lock`, `template`, `parent` and the drives.
    pub config: Config,
    /// Changes that take effect at the next start.
    pub pending: Config,
    pub pending_delete: BTreeMap<String, PendingDelete>,
    pub snapshots: BTreeMap<String, Snapshot>,
    #[serde(default)]
    pub guest: Guest,
    /// QEMU process; `None` if the VM is stopped. After a restart of the lab, all VMs are stopped.
    #[serde(skip)]
    pub run: Option<Run>,
}

/// Effect of a pending deletion on the volume: `Detach` keeps the volume as `unusedN`, `Destroy` destroys it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PendingDelete {
    Detach,
    Destroy,
}

/// Snapshot of a VM.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// Options of the snapshot section, including `snaptime`, `parent` and `description`.
    pub config: Config,
}

/// QEMU process of a started VM.
#[derive(Clone, Debug)]
pub struct Run {
    /// Start time in seconds since 1970.
    pub since: u64,
    pub pid: u32,
    pub paused: bool,
    /// Config that the VM was started with, and changes that were applied since.
    pub config: Config,
    /// Answers of the guest agent; `None` if no agent runs.
    pub agent: Option<Agent>,
    /// Drives that the guest uses, so that they cannot be unplugged.
    pub held_drives: BTreeSet<String>,
}

/// Guest properties that a scenario defines for a VM.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Guest {
    pub agent: Option<Agent>,
    pub held_drives: BTreeSet<String>,
}

/// Answers of the guest agent in a VM.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Agent {
    pub interfaces: Vec<AgentInterface>,
    pub hostname: String,
}

/// Network interface of a guest: name, MAC address, and IP addresses with prefix length.
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
