//! Status of a cluster: its nodes as Proxmox, Talos and Kubernetes report them.
//!
//! All requests are sent at the same time, with one timeout for all. An API that does not answer is shown as unknown, with the
//! reason, and delays no other.

mod gather;
mod node;
mod running;

use serde::Serialize;
use talmox_plan::desired::Contact;
use talmox_plan::observed::CheckSeen;
use talmox_plan::plan::{Change, Object, OwnVm};
use talmox_talos_config::pki::PkiError;
use talmox_talos_config::secrets::{Bundle, CertificateAndKey};

pub use gather::{ObservedCluster, StatusSources, gather};
pub use node::{EtcdStatus, KubernetesStatus, NodeStatus, TalosStatus, VmState, VmStatus};
pub use running::{NodeRunning, Running, running};

/// A value, or why it is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Known<T> {
    Is(T),
    /// Why it is not known.
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

/// A node to be asked about.
#[derive(Clone, Debug)]
pub struct Subject {
    pub name: String,
    pub role: NodeRole,
    /// Whether it runs Talos, or another system.
    pub is_talos: bool,
    /// Nothing if it has no VM, or nobody knows which.
    pub own: Option<OwnVm>,
    /// What is there in place of its VM, and is not ours.
    pub stranger: Option<String>,
    pub contact: Contact,
}

/// How a cluster is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Status {
    pub cluster: String,
    /// The version of its Kubernetes API.
    pub kubernetes: Known<String>,
    pub nodes: Vec<NodeStatus>,
    /// Who did not answer.
    pub unreachable: Vec<Unreachable>,
    pub authorities: Vec<AuthorityLife>,
    /// What differs and is of no node, or of one that the inventory has no longer.
    pub drift: Vec<String>,
    /// Nodes that Kubernetes lists and the inventory does not have.
    pub unknown_nodes: Vec<String>,
    /// How each check stands; none if not all nodes have joined, or nobody could look.
    pub health: Vec<CheckSeen>,
    /// What is wrong with the cluster as a whole, and will not mend by itself.
    pub errors: Vec<String>,
}

/// A part of the whole that did not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unreachable {
    pub part: Part,
    /// The nodes that it is about; none if it is about all.
    pub nodes: Vec<String>,
    /// In words, of the first node if there are several.
    pub reason: String,
}

/// Whom a status comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    Proxmox,
    Talos,
    Kubernetes,
}

/// How long one of the cluster's authorities lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuthorityLife {
    pub authority: &'static str,
    /// In seconds since 1970.
    pub not_after: i64,
}

/// The authorities of a bundle.
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

/// What a plan would change about objects that this is said of: a line for each. States that a plan waits for are not drift. They are told by the node that they
/// belong to, if they belong to one.
pub(crate) fn drift(changes: &[Change], is_meant: impl Fn(Option<&str>) -> bool) -> Vec<String> {
    let about = |change: &&Change| {
        let own = match &change.object {
            Object::Vm(name) | Object::Node(name) => Some(name.as_str()),
            Object::Disk(name) => name.split('/').next(),
            _ => None,
        };
        is_meant(own)
    };
    let line = |change: &Change| {
        let fields: Vec<&str> = change.fields.iter().map(|field| field.path.as_str()).collect();
        let fields =
            if fields.is_empty() { String::new() } else { format!(": {}", fields.join(", ")) };
        format!("{} {}{fields}", change.class.as_str(), change.object)
    };
    changes.iter().filter(|change| !change.is_awaited_state()).filter(about).map(line).collect()
}
