//! Observed state of the nodes: the Talos API, etcd, and other ports of their addresses.

use std::net::IpAddr;

use serde::Serialize;
use talmox_talos_config::secret::SecretText;

/// What answers at the address of a node.
#[derive(Clone, Debug, Default)]
pub enum TalosSeen {
    /// The address is not known, so no request was sent.
    #[default]
    NotAsked,
    Nothing(String),
    /// Something accepts connections and sends nothing: a machine that hangs, or is still booting.
    Mute(String),
    /// Something accepts connections and does not speak the Talos API.
    NotTalos(String),
    /// A machine without a config.
    Maintenance {
        /// Why it is not the machine of this node; none if it is.
        mismatch: Option<String>,
    },
    /// A node of this cluster.
    OwnNode(Box<Configured>),
    /// A Talos node of another cluster, or another machine.
    OtherMachine(String),
    /// A machine that may be of this cluster and rejects the credentials.
    NoAccess(String),
}

/// A node of the cluster.
#[derive(Clone, Debug, Default)]
pub struct Configured {
    /// The address at which it answered.
    pub address: Option<IpAddr>,
    /// Such as `v1.11.2`.
    pub version: Option<String>,
    pub schematic: Option<String>,
    pub config: Option<SecretText>,
    pub etcd: EtcdSeen,
    /// Whether its kubelet runs.
    pub has_kubelet: bool,
}

impl Configured {
    /// Whether it has joined the cluster.
    pub fn has_joined(&self, is_control_plane: bool) -> bool {
        self.has_kubelet && self.is_member(is_control_plane)
    }

    /// Whether it is a member of etcd, if it must be one.
    pub fn is_member(&self, is_control_plane: bool) -> bool {
        !is_control_plane || matches!(self.etcd, EtcdSeen::Member { .. })
    }
}

/// Whether a control plane has etcd data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EtcdSeen {
    #[default]
    Unknown,
    /// It waits for a cluster to join.
    Waiting,
    /// It has run, so it has data, but it is not healthy.
    Ill {
        reason: String,
        /// The voting members, as this member last knew them; empty if it does not report them.
        voters: Vec<String>,
        /// Whether it runs without a leader.
        is_leaderless: bool,
    },
    /// It is a member, and reports these members.
    Member { names: Vec<String> },
}

/// What answers at a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortSeen {
    /// It presents a certificate of the Kubernetes authority of this cluster.
    ThisCluster,
    /// Something else, in words.
    Other(String),
}

/// What answers at the virtual address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VipSeen {
    /// The inventory has no virtual address.
    #[default]
    NotAsked,
    Silent,
    Answers(PortSeen),
}
