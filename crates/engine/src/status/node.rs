//! One node, in all its aspects.

use std::net::IpAddr;

use serde::Serialize;

use super::{Known, NodeRole};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeStatus {
    pub name: String,
    pub role: NodeRole,
    /// Nothing if there is no VM of it, or nobody could be asked.
    pub vmid: Option<u32>,
    pub address: Known<IpAddr>,
    pub vm: VmState,
    /// Nothing if it runs another system.
    pub talos: Option<Known<TalosStatus>>,
    /// Nothing if it runs another system.
    pub kubernetes: Option<Known<KubernetesStatus>>,
    /// Of control planes only.
    pub etcd: Option<Known<EtcdStatus>>,
    /// What a plan would change.
    pub drift: Vec<String>,
}

/// What Proxmox says of a VM.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VmState {
    Is(VmStatus),
    /// There is none. In words, for there may be another in its place.
    Absent(String),
    /// Why it is not known.
    Unknown(String),
}

impl VmState {
    pub fn get(&self) -> Option<&VmStatus> {
        match self {
            Self::Is(status) => Some(status),
            Self::Absent(_) | Self::Unknown(_) => None,
        }
    }
}

/// The VM, as Proxmox sees it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VmStatus {
    /// Where it is.
    pub host: String,
    pub running: bool,
    /// How much of its processors it uses, from 0 to 1.
    pub cpu: Option<f64>,
    /// In bytes.
    pub memory: Option<u64>,
    pub max_memory: Option<u64>,
    /// In seconds.
    pub uptime: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TalosStatus {
    /// `running`, `booting`…, or `maintenance` without a config.
    pub stage: String,
    /// Older versions do not tell it in maintenance mode.
    pub version: Option<String>,
    /// Services that should run and do not, and why.
    pub troubles: Vec<String>,
    /// When the certificate ends that it shows, in seconds since 1970. Talos renews it by itself.
    pub certificate_end: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KubernetesStatus {
    pub ready: bool,
    /// Why it is not ready.
    pub reason: Option<String>,
    pub schedulable: bool,
    pub version: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EtcdStatus {
    pub leader: bool,
    pub learner: bool,
    /// In bytes.
    pub database: u64,
    pub errors: Vec<String>,
}
