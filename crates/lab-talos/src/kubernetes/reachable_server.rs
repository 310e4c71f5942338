//! API server that a kubelet can use, or the reason why the kubelet can use none.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use talmox_lab_kube::KubeStore;

use crate::sequence::can_discover;
use crate::talos_state::{Node, TalosState};

const UNKNOWN_AUTHORITY: &str =
    "tls: failed to verify certificate: x509: certificate signed by unknown authority";
const NO_ANSWER: &str = "the server was unable to return a response in the time allotted";
const FULL: &str = "etcdserver: mvcc: database space exceeded";

impl TalosState {
    /// Store of the Kubernetes cluster that a node belongs to.
    pub(crate) fn kubernetes_of(&self, node: &Node) -> Option<Arc<KubeStore>> {
        let facts = &node.config.as_ref()?.facts;
        let own = node.etcd.and_then(|part| self.etcds.get(&part.cluster));
        let mut all = self.etcds.values();
        let found = own.or_else(|| all.find(|etcd| etcd.talos_cluster == facts.cluster_id))?;
        Some(Arc::clone(&found.store))
    }
}

/// Store of the first API server that the node can reach and trusts, and that accepts writes.
///
/// The load balancer that Talos runs on every node has the same candidates: the endpoint in the config, and the control planes
/// that discovery found. A control plane also uses its own API server.
pub(super) fn api_server(
    talos: &TalosState,
    gateways: &[IpAddr],
    vmid: u32,
) -> Result<Arc<KubeStore>, String> {
    let node = talos.nodes.get(&vmid).ok_or_else(String::new)?;
    let config = node.config.as_ref().ok_or_else(String::new)?;
    let facts = &config.facts;
    let (host, port) = facts.endpoint.clone().unwrap_or_default();
    let mut problem: Cow<'static, str> = match host.parse::<IpAddr>() {
        Ok(_) => format!("dial tcp {host}:{port}: connect: connection refused").into(),
        Err(_) => format!("dial tcp: lookup {host}: no such host").into(),
    };
    // Only nodes with an API server are searched, because every kubelet calls this function regularly and a lab may have many
    // nodes.
    let serving = talos.etcds.values().flat_map(|cluster| cluster.api_servers.keys());
    let mut serving: Vec<u32> = serving.copied().collect();
    serving.sort_unstable_by_key(|other| (*other != vmid, *other));
    for other in serving.iter().filter_map(|other| talos.nodes.get(other)) {
        let is_known = other.vmid == vmid || can_discover(talos, node, other, gateways);
        if !other.is_control_plane() || !is_known {
            continue;
        }
        let Some(membership) = other.etcd else { continue };
        let Some(cluster) = talos.etcds.get(&membership.cluster) else { continue };
        if !cluster.api_servers.contains_key(&other.vmid) {
            continue;
        }
        let its_ca = other.config.as_ref().map(|config| config.facts.kube_ca.as_str());
        if its_ca != Some(facts.kube_ca.as_str()) {
            problem = UNKNOWN_AUTHORITY.into();
        } else if !talos.serves(membership) {
            problem = NO_ANSWER.into();
        } else if !talos.accepts_writes(membership) {
            problem = FULL.into();
        } else {
            return Ok(Arc::clone(&cluster.store));
        }
    }
    Err(problem.into_owned())
}
