//! Observed state of Kubernetes.

use std::collections::BTreeSet;

/// Observed state of the Kubernetes API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KubernetesSeen {
    /// No sign of a cluster was found, so no request was sent.
    #[default]
    NotAsked,
    /// The cluster exists, and its API does not answer.
    Silent(String),
    Answers(Registered),
}

/// The nodes of a cluster, and its health.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registered {
    /// The nodes, by name.
    pub nodes: BTreeSet<String>,
    /// The first failed check; none if all pass, or if not all nodes have joined.
    pub trouble: Option<String>,
    /// Description of etcd members that are not control planes of the inventory. None if there are none.
    pub strange_members: Option<String>,
    /// The result of each health check; empty if not all nodes have joined.
    pub checks: Vec<CheckSeen>,
    /// Whether the check for ready nodes was skipped, because no pod network is known in the cluster.
    pub lacks_pod_network: bool,
}

/// Result of a health check.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct CheckSeen {
    /// The condition that is checked.
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
