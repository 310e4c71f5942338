//! Status of a node.

use std::net::IpAddr;

use serde::Serialize;

use super::{Known, NodeRole};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeStatus {
    pub name: String,
    pub role: NodeRole,
    /// None if it has no VM, or Proxmox did not answer.
    pub vmid: Option<u32>,
    pub address: Known<IpAddr>,
    pub vm: VmState,
    /// None if it runs another system.
    pub talos: Option<Known<TalosStatus>>,
    /// None if it runs another system.
    pub kubernetes: Option<Known<KubernetesStatus>>,
    /// Of control planes only.
    pub etcd: Option<Known<EtcdStatus>>,
    /// What a plan would change.
    pub drift: Vec<String>,
}

/// State of a VM, as Proxmox reports it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VmState {
    Is(VmStatus),
    /// It does not exist. The text names a foreign VM in its place, if there is one.
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

/// Resource usage of a VM, as Proxmox reports it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VmStatus {
    /// The host that it is on.
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
    /// None in maintenance mode of older versions.
    pub version: Option<String>,
    /// Services that should run and do not, and why.
    pub troubles: Vec<String>,
    /// End of validity of its certificate, in seconds since 1970. Talos renews it by itself.
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
