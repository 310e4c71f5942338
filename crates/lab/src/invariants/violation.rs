//! Violated invariants.

use std::fmt;
use std::net::IpAddr;

/// Violation of an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// An etcd cluster with at least two voters lost its quorum.
    QuorumLost {
        /// Names of the members that do not run, sorted.
        down: Vec<String>,
    },
    /// Several control planes of a cluster do not run, and no user stopped them.
    ControlPlanesDown { names: Vec<String> },
    /// An eviction or deletion left a PodDisruptionBudget with too few healthy pods.
    BudgetBroken { budget: String, pod: String, healthy: u64, required: u64 },
    /// A checked token changed a foreign VM.
    ForeignVmChanged { vmid: u32, token: String },
    /// The config of a node has a secret whose value differs from the earlier value of the cluster.
    SecretChanged { node: String, secret: &'static str },
    /// Several running machines have the same address.
    AddressShared { address: IpAddr, machines: Vec<String> },
    /// A checked token deleted a VM whose etcd member is still in the member list.
    MemberDeleted { vmid: u32, member: String, token: String },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QuorumLost { down } => {
                write!(f, "etcd lost its quorum; members that do not run: {}", down.join(", "))
            }
            Self::ControlPlanesDown { names } => {
                write!(f, "control planes down at the same time: {}", names.join(", "))
            }
            Self::BudgetBroken { budget, pod, healthy, required } => write!(
                f,
                "PodDisruptionBudget {budget} has {healthy} healthy pods and requires {required} \
                 after pod {pod} was evicted or deleted"
            ),
            Self::ForeignVmChanged { vmid, token } => {
                write!(f, "token {token} changed the foreign VM {vmid}")
            }
            Self::SecretChanged { node, secret } => {
                write!(f, "the config of node {node} has another {secret}")
            }
            Self::AddressShared { address, machines } => {
                write!(f, "address {address} is used by {}", machines.join(" and "))
            }
            Self::MemberDeleted { vmid, member, token } => write!(
                f,
                "token {token} deleted VM {vmid} while etcd still lists its member {member}"
            ),
        }
    }
}
