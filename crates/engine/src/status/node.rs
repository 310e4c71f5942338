//! Status of a node.

use std::net::IpAddr;

use serde::Serialize;

use super::{Known, NodeRole};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeStatus {
    pub name: String,
    pub role: NodeRole,
    /// Vmid of the VM. None if the node has no VM, or if Proxmox did not answer.
    pub vmid: Option<u32>,
    pub address: Known<IpAddr>,
    pub vm: VmState,
    /// State of Talos. None if the node runs another operating system.
    pub talos: Option<Known<TalosStatus>>,
    /// State of the node in Kubernetes. None if the node runs another operating system.
    pub kubernetes: Option<Known<KubernetesStatus>>,
    /// State of etcd. None for workers.
    pub etcd: Option<Known<EtcdStatus>>,
    /// Changes of this node that a plan would contain.
    pub drift: Vec<String>,
}

/// State of a VM, as Proxmox reports it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VmState {
    Is(VmStatus),
    /// The VM does not exist. If a foreign VM uses its vmid or name, the text describes that VM.
    Absent(String),
    /// The state is not known, for this reason.
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
    /// The host of the VM.
    pub host: String,
    pub running: bool,
    /// CPU usage of the VM, as a fraction of its cores, from 0 to 1.
    pub cpu: Option<f64>,
    /// Memory usage in bytes.
    pub memory: Option<u64>,
    pub max_memory: Option<u64>,
    /// Uptime in seconds.
    pub uptime: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TalosStatus {
    /// Stage of Talos: `running`, `booting`…, or `maintenance` if the machine has no config.
    pub stage: String,
    /// Version of Talos. None for older versions in maintenance mode.
    pub version: Option<String>,
    /// Services that should run and do not, with the reason.
    pub troubles: Vec<String>,
    /// End of validity of the certificate of the node, in seconds since 1970. Talos renews the certificate
    /// automatically.
    pub certificate_end: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KubernetesStatus {
    pub ready: bool,
    /// Why the node is not ready. None if it is ready.
    pub reason: Option<String>,
    pub schedulable: bool,
    pub version: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EtcdStatus {
    pub leader: bool,
    pub learner: bool,
    /// Size of the database in bytes.
    pub database: u64,
    pub errors: Vec<String>,
}
