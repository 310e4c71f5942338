//! etcd clusters: who is a member, who leads, whether there is a quorum, and what they remember.
//!
//! A cluster is data that several nodes share. Its memory is there as long as the lab is; whether
//! anybody can get at it is a matter of its members: which of them run, hear each other, and are
//! enough.

mod bolt;
mod bootstrap;
mod call;
mod endpoint;
mod join;
mod quorum;
mod saved;
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

pub(crate) use bootstrap::{Founding, Recover, bootstrap};
pub(crate) use call::{
    alarms, database, defragment, disarm, forfeit, leave, members, recover, remove, snapshot,
    status,
};
pub(crate) use endpoint::{Endpoints, endpoint};
pub use saved::SavedCluster;
pub(crate) use service::run;
pub(crate) use version::version;

/// One etcd cluster. Its data is the memory of a Kubernetes cluster.
#[derive(Debug)]
pub(crate) struct EtcdCluster {
    pub(crate) id: u64,
    /// The authority its members trust, in PEM.
    pub(crate) ca: String,
    /// The Talos cluster it belongs to.
    pub(crate) talos_cluster: String,
    pub(crate) members: BTreeMap<u64, Member>,
    pub(crate) leader: Option<u64>,
    pub(crate) term: u64,
    /// Elections and changes of the membership: they are written as data is.
    pub(crate) turns: u64,
    pub(crate) store: Arc<KubeStore>,
    /// Members that raised the alarm that their disk is full. Any of them stops all writing, until it is
    /// disarmed: it outlives reboots, and even the member.
    pub(crate) alarms: BTreeSet<u64>,
    /// Nodes whose API servers use this cluster now, and where they are.
    pub(crate) api_servers: BTreeMap<u32, IpAddr>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Member {
    /// The host name of its node, once it has started.
    pub(crate) name: String,
    pub(crate) vmid: u32,
    pub(crate) peer: IpAddr,
    pub(crate) is_learner: bool,
    /// Its process runs now.
    #[serde(skip)]
    pub(crate) is_up: bool,
    /// It has had a leader since its process runs. Before, etcd takes connections of clients and answers none of their calls.
    #[serde(skip)]
    pub(crate) serves_clients: bool,
    /// The revision at which its file was last made small.
    pub(crate) defragmented: u64,
}

impl EtcdCluster {
    /// What raft has written so far.
    pub(crate) fn raft_index(&self) -> u64 {
        self.store.revision() + self.turns
    }
}
