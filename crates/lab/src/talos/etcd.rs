//! etcd clusters: who is a member, who leads, whether there is a quorum, and what they remember.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::kube::KubeStore;

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
    pub(crate) store: Arc<KubeStore>,
    pub(crate) no_space: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// The host name of its node, once it has started.
    pub(crate) name: String,
    pub(crate) vmid: u32,
    pub(crate) peer: IpAddr,
    pub(crate) is_learner: bool,
    /// Its process runs now.
    pub(crate) is_up: bool,
}

pub(crate) async fn run_control_plane(_: Arc<super::realm::Realm>, _: u32, _: u64) {
    std::future::pending::<()>().await;
}
