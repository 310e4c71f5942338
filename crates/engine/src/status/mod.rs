//! Status of a cluster: its nodes as Proxmox, Talos and Kubernetes report them.
//!
//! All requests are sent at the same time, with one timeout for all. The state behind an API that does not answer is shown as
//! unknown, with the reason. Such an API does not delay requests to the others.

mod gather;
mod node;
mod requests;
mod running;

use serde::Serialize;
use talmox_plan::desired::Contact;
use talmox_plan::observed::CheckSeen;
use talmox_plan::plan::show::drift_line;
use talmox_plan::plan::{Change, OwnVm};
use talmox_talos_config::pki::PkiError;
use talmox_talos_config::secrets::{Bundle, CertificateAndKey};

pub use gather::{ObservedCluster, gather};
pub use node::{EtcdStatus, KubernetesStatus, NodeStatus, TalosStatus, VmState, VmStatus};
pub use requests::StatusSources;
pub use running::{NodeRunning, Running, running};

/// A value, or the reason why it is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Known<T> {
    Is(T),
    /// The value is not known, for this reason.
    Unknown(String),
}

impl<T> Known<T> {
    pub fn get(&self) -> Option<&T> {
        match self {
            Self::Is(value) => Some(value),
            Self::Unknown(_) => None,
        }
    }
}

/// Role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeRole {
    ControlPlane,
    Worker,
}

/// A node whose status is requested.
#[derive(Clone, Debug)]
pub struct Subject {
    pub name: String,
    pub role: NodeRole,
    /// Whether the node runs Talos, and not another operating system.
    pub is_talos: bool,
    /// VM of the node. None if the node has no VM, or if its VM is not known.
    pub own: Option<OwnVm>,
    /// Description of the foreign VM that has the vmid or name of the VM of this node.
    pub foreign_vm: Option<String>,
    pub contact: Contact,
}

/// Status of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Status {
    pub cluster: String,
    /// The version of the Kubernetes API of the cluster.
    pub kubernetes: Known<String>,
    pub nodes: Vec<NodeStatus>,
    /// The APIs that did not answer.
    pub unreachable: Vec<Unreachable>,
    pub authorities: Vec<AuthorityLife>,
    /// Drift of objects that belong to no node, or to a node that is no longer in the inventory.
    pub drift: Vec<String>,
    /// Nodes that Kubernetes lists and the inventory does not have.
    pub unknown_nodes: Vec<String>,
    /// Result of each health check. Empty if not all nodes have joined, or if the checks could not run.
    pub health: Vec<CheckSeen>,
    /// Problems of the cluster as a whole that waiting does not fix.
    pub errors: Vec<String>,
}

/// An API that did not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unreachable {
    pub part: Part,
    /// The nodes whose API did not answer. Empty for an API of the whole cluster.
    pub nodes: Vec<String>,
    /// The reason. If several nodes did not answer, the reason of the first one.
    pub reason: String,
}

/// API that a part of the status comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    Proxmox,
    Talos,
    Kubernetes,
}

/// End of validity of a certificate authority of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuthorityLife {
    pub authority: &'static str,
    /// End of validity, in seconds since 1970.
    pub not_after: i64,
}

/// The certificate authorities of a secrets bundle.
pub fn authorities(bundle: &Bundle) -> Result<Vec<AuthorityLife>, PkiError> {
    let certs = &bundle.certs;
    let all = [
        ("talos", &certs.os),
        ("kubernetes", &certs.k8s),
        ("kubernetes aggregator", &certs.k8s_aggregator),
        ("etcd", &certs.etcd),
    ];
    let life = |(authority, pair): (&'static str, &CertificateAndKey)| {
        let not_after = pair.authority()?.certificate.not_after;
        Ok(AuthorityLife { authority, not_after: not_after.seconds() })
    };
    all.into_iter().map(life).collect()
}

/// One line for each change of a plan to an object of this node. States that a plan only waits for are not drift.
pub(crate) fn drift_of_node(changes: &[Change], node: &str) -> Vec<String> {
    let own = without_waits(changes).filter(|change| change.object.node() == Some(node));
    own.map(|change| drift_line(change, true)).collect()
}

/// One line for each change of a plan to an object that belongs to no known node.
pub(crate) fn other_drift(changes: &[Change], is_known: impl Fn(&str) -> bool) -> Vec<String> {
    let others =
        without_waits(changes).filter(|change| !change.object.node().is_some_and(&is_known));
    others.map(|change| drift_line(change, false)).collect()
}

fn without_waits(changes: &[Change]) -> impl Iterator<Item = &Change> {
    changes.iter().filter(|change| !change.is_awaited_state())
}
