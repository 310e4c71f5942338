//! Observed state of Kubernetes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Observed state of the Kubernetes API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KubernetesSeen {
    /// No evidence of a cluster was found, so no request was sent.
    #[default]
    NotAsked,
    /// The cluster exists, but its API does not answer.
    Silent(String),
    Answers(Registered),
}

/// The nodes of a cluster, and its health.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registered {
    /// The nodes, by name.
    pub nodes: BTreeSet<String>,
    /// The cordoned nodes, and what cordoned them.
    pub cordoned: BTreeMap<String, CordonedBy>,
    /// The nodes that are not ready.
    pub unready: BTreeSet<String>,
    /// The internal addresses that the kubelets registered, by the name of the node.
    pub addresses: BTreeMap<String, Vec<IpAddr>>,
    /// Why the first failing health check does not pass. None if all checks pass, or if not all nodes have joined.
    pub problem: Option<String>,
    /// Description of etcd members that are not control planes of the inventory. None if no such member exists.
    pub strange_members: Option<String>,
    /// The results of all health checks. Empty if not all nodes have joined.
    pub checks: Vec<CheckSeen>,
    /// Whether the check for ready nodes was skipped, because no pod network is known in the cluster.
    pub lacks_pod_network: bool,
    /// The nodes that are not ready and that the inventory does not contain.
    pub unknown: BTreeMap<String, UnknownNode>,
}

/// A node that is not ready and that the inventory does not contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnknownNode {
    /// UUID of its machine.
    pub system_uuid: Option<String>,
    /// Name of its machine in a cloud, such as `proxmox://home/300`.
    pub provider_id: Option<String>,
    pub addresses: Vec<IpAddr>,
    /// The address and port at which a machine answers. None if nothing answers.
    pub answer: Option<String>,
}

/// Program or user that cordoned a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CordonedBy {
    /// talmox, before a change that is not finished.
    Talmox,
    /// A user or another program. talmox keeps the node cordoned.
    Other,
}

/// Result of a health check.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct CheckSeen {
    /// The condition that the check tests.
    pub name: &'static str,
    pub state: CheckState,
    /// Why the check does not pass.
    pub reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    Passed,
    Waiting,
    Skipped,
}
