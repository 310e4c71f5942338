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
    /// A machine accepts connections, but sends nothing. It hangs, or is still booting.
    Mute(String),
    /// A machine accepts connections, but does not speak the Talos API.
    NotTalos(String),
    /// A machine in maintenance mode.
    Maintenance {
        /// Why the machine is not the machine of this node. None if it is the machine of this node.
        mismatch: Option<String>,
    },
    /// A node of this cluster.
    OwnNode(Box<Configured>),
    /// A Talos node of another cluster, or another machine.
    OtherMachine(String),
    /// A machine that may belong to this cluster, but rejects the credentials.
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
    /// The config that the node uses.
    pub config: Option<SecretText>,
    /// The config on the disk of the node, if that config differs from the one in use. The node tries another config until a
    /// timeout, or uses the saved config from the next boot on.
    pub saved: Option<SecretText>,
    pub etcd: EtcdSeen,
    /// Whether the etcd member of the node is the leader.
    pub is_leader: bool,
    /// How Talos would apply the config of the inventory, according to a dry run on the node. None if the configs are equal,
    /// or if no dry run was made.
    pub dry_run: Option<DryRun>,
    /// Whether the kubelet of the node runs.
    pub has_kubelet: bool,
    /// Addresses that the node has from the drive or volume of its first boot, and not from its config.
    pub first_addresses: Vec<IpAddr>,
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

/// Result of a dry run of a config.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DryRun {
    Live,
    Reboot,
    /// Talos rejects the config. The text is the reason.
    Rejected(String),
}

/// Whether a control plane has etcd data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EtcdSeen {
    #[default]
    Unknown,
    /// etcd waits for a bootstrap, or waits to join a cluster.
    Waiting,
    /// etcd has data, because it has run before, but etcd is not healthy.
    Unhealthy {
        reason: String,
        /// The voting members that this member reports. Empty if this member does not report them.
        voters: Vec<String>,
        /// Whether etcd runs without a leader.
        is_leaderless: bool,
    },
    /// The node is a member of etcd, and reports these members.
    Member { names: Vec<String> },
}

/// Kind of server that answers at a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortSeen {
    /// The server has a certificate of the Kubernetes CA of this cluster.
    ThisCluster,
    /// Another server; the text describes it.
    Other(String),
}

/// Answer at the shared address (VIP) of the control planes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VipSeen {
    /// The inventory has no shared address (VIP).
    #[default]
    NotAsked,
    Silent,
    Answers(PortSeen),
}
