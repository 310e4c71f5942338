//! Step: bootstrap etcd.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use talmox_pve_types::id::VmId;

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;
use super::talos_node::TalosNode;
use crate::ownership::ClusterMark;

/// Bootstraps etcd on the first control plane. The request is sent to the address of that node, not to the endpoint of
/// the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootstrapEtcd {
    pub node: TalosNode,
    /// Signs of the cluster. Any VM or address with one of these signs may hold etcd data.
    pub signs: ClusterSigns,
    /// All other control planes. The step fails if one of them has etcd data, or if one that must answer does not answer.
    pub witnesses: Vec<Witness>,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for BootstrapEtcd {
    const KIND: &'static str = "bootstrap-etcd";
    const PART: Option<Part> = Some(Part::Configs);
    const PHASE: RunPhase = RunPhase::Change;
    const NODE_EFFECT: NodeEffect = NodeEffect::None;

    fn privileges(&self) -> Vec<Privilege<'_>> {
        vec![]
    }

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
    /// According to the plan, the run creates the disk of the control plane before the bootstrap. The bootstrap step checks
    /// this. If another run created the disk, the control plane must answer as with `Answer`.
    FreshDisk,
    /// Before the bootstrap, the control plane must report that it has no etcd data.
    Answer,
}

/// Another control plane, with the evidence that it has no etcd data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    pub node: TalosNode,
    pub evidence: Evidence,
}

/// Properties of a node by which its VM is recognised, even if the name, tags and notes of the VM were changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSign {
    pub name: String,
    pub uuid: String,
    pub vmid: VmId,
    /// Whether the node is a control plane that runs Talos.
    pub has_etcd: bool,
}

/// Properties by which the VMs and addresses of a cluster are recognised before the bootstrap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterSigns {
    /// The name of the cluster. Each VM of the cluster has it as a tag.
    pub cluster: String,
    pub mark: ClusterMark,
    pub nodes: Vec<NodeSign>,
    /// The shared address and the address of the endpoint. Any running control plane may answer there.
    pub addresses: Vec<IpAddr>,
}
