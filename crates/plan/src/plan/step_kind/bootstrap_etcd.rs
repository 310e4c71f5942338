//! Step: bootstrap etcd.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use talmox_pve_types::id::VmId;

use super::StepKind;
use super::burden::Burden;
use super::talos_node::TalosNode;
use crate::ownership::ClusterMark;

/// Bootstraps etcd on the first control plane. The request is sent to the address of that node, not to the endpoint of
/// the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootstrapEtcd {
    pub node: TalosNode,
    /// Signs of the cluster. Every VM and address with one of them may hold etcd data.
    pub signs: ClusterSigns,
    /// Every other control plane. The step fails if one of them has etcd data, or must answer and does not.
    pub witnesses: Vec<Witness>,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for BootstrapEtcd {
    const KIND: &'static str = "bootstrap-etcd";

    fn burden(&self) -> Burden {
        Burden { quorum: true, ..Burden::default() }
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}

/// Why another control plane is known to have no etcd data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// This run creates the disk of the control plane. The bootstrap step checks that this run really created it; if not,
    /// the control plane must answer like any other.
    FreshDisk,
    /// The control plane itself must report before the bootstrap that it has no etcd data.
    Answer,
}

/// Another control plane, and how it shows that it has no etcd data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    pub node: TalosNode,
    pub evidence: Evidence,
}

/// Signs of a node by which its VM is recognised, independent of the name, tags and notes of the VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSign {
    pub name: String,
    pub uuid: String,
    pub vmid: VmId,
    /// Whether the node is a control plane that runs Talos.
    pub has_etcd: bool,
}

/// Signs by which the VMs and addresses of a cluster are recognised at its bootstrap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterSigns {
    /// The name of the cluster, which is a tag of its VMs.
    pub cluster: String,
    pub mark: ClusterMark,
    pub nodes: Vec<NodeSign>,
    /// The shared address and the address of the endpoint. Any running control plane may answer there.
    pub addresses: Vec<IpAddr>,
}
