//! etcd clusters: members, leader, quorum and data.
//!
//! A cluster is data that several nodes share. The data exists as long as the lab exists. Access to the data requires enough
//! running members that can reach each other.

mod bolt;
mod bootstrap;
mod endpoint;
mod join;
mod operation;
mod quorum;
mod saved_cluster;
mod service;
mod snapshot;
#[cfg(test)]
mod tests;
mod version;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use talmox_lab_kube::KubeStore;

pub(crate) use bootstrap::{PendingBootstrap, RecoverOptions, bootstrap};
pub(crate) use endpoint::{Endpoints, endpoint};
pub(crate) use operation::{
    alarms, database, defragment, disarm, forfeit, leave, members, recover, remove, snapshot,
    status,
};
pub use saved_cluster::SavedCluster;
pub(crate) use service::{run, update_peer};
pub(crate) use version::version;

/// etcd cluster, which stores the data of a Kubernetes cluster.
#[derive(Debug)]
pub(crate) struct EtcdCluster {
    pub(crate) id: u64,
    /// CA certificate of the members, in PEM.
    pub(crate) ca: String,
    /// Id of the Talos cluster.
    pub(crate) talos_cluster: String,
    pub(crate) members: BTreeMap<u64, Member>,
    pub(crate) leader: Option<u64>,
    pub(crate) term: u64,
    /// Number of elections and membership changes. They are entries of the raft log as well.
    pub(crate) turns: u64,
    pub(crate) store: Arc<KubeStore>,
    /// Ids of the members with a disk space alarm. Any alarm blocks all writes until it is disarmed. An alarm persists over
    /// reboots, and even over the removal of its member.
    pub(crate) alarms: BTreeSet<u64>,
    /// vmids and addresses of the nodes whose API servers use this cluster.
    pub(crate) api_servers: BTreeMap<u32, IpAddr>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Member {
    /// Host name of the node; empty until the member has started for the first time.
    pub(crate) name: String,
    pub(crate) vmid: u32,
    pub(crate) peer: IpAddr,
    pub(crate) is_learner: bool,
    /// Whether the etcd process runs.
    #[serde(skip)]
    pub(crate) is_up: bool,
    /// Boot of the node in which the etcd process was started last.
    #[serde(skip)]
    pub(crate) boot: u64,
    /// Whether the member has had a leader since its process started. Before that, etcd accepts connections of clients but
    /// answers no calls.
    #[serde(skip)]
    pub(crate) serves_clients: bool,
    /// Revision of the last defragmentation of the database file.
    pub(crate) defragmented: u64,
}

impl EtcdCluster {
    /// Index of the last entry in the raft log.
    pub(crate) fn raft_index(&self) -> u64 {
        self.store.revision() + self.turns
    }
}
