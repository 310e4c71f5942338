//! Observed state of the nodes: the Talos API, etcd, and other ports of their addresses.

use std::net::IpAddr;

use serde::Serialize;
use talmox_talos_config::secret::SecretText;

/// Answer at the address of a node.
#[derive(Clone, Debug, Default)]
pub enum TalosSeen {
    /// The address is not known, so no request was sent.
    #[default]
    NotAsked,
    Nothing(String),
    /// A machine accepts connections and sends nothing: it hangs, or is still booting.
    Mute(String),
    /// A machine accepts connections and does not speak the Talos API.
    NotTalos(String),
    /// A machine without a config.
    Maintenance {
        /// Why the machine is not the one of this node. None if it is.
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
    /// The address at which the node answered.
    pub address: Option<IpAddr>,
    /// Version of Talos, such as `v1.11.2`.
    pub version: Option<String>,
    pub schematic: Option<String>,
    pub config: Option<SecretText>,
    pub etcd: EtcdSeen,
    /// Whether the kubelet of the node runs.
    pub has_kubelet: bool,
}

impl Configured {
    /// Whether the node has joined the cluster.
    pub fn has_joined(&self, is_control_plane: bool) -> bool {
        self.has_kubelet && self.is_member(is_control_plane)
    }

    /// Whether the node is a member of etcd. Always true for a worker.
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
    /// etcd waits for a bootstrap, or to join a cluster.
    Waiting,
    /// etcd has run, so it has data, but it is not healthy.
    Ill {
        reason: String,
        /// The voting members that this member reports; empty if it does not report them.
        voters: Vec<String>,
        /// Whether etcd runs without a leader.
        is_leaderless: bool,
    },
    /// etcd is a member, and reports these members.
    Member { names: Vec<String> },
}

/// Server that answers at a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortSeen {
    /// The server presents a certificate of the Kubernetes CA of this cluster.
    ThisCluster,
    /// Another server; the text describes it.
    Other(String),
}

/// Answer at the virtual address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VipSeen {
    /// The inventory has no virtual address.
    #[default]
    NotAsked,
    Silent,
    Answers(PortSeen),
}
