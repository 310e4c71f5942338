//! Which API server a kubelet can use, and why it cannot.

use std::net::IpAddr;
use std::sync::Arc;

use crate::kube::KubeStore;
use crate::talos::land::Land;
use crate::talos::sequence::finds;

/// An API server that can be talked to.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) cluster: u64,
    pub(super) store: Arc<KubeStore>,
}

/// The first API server that the node reaches and believes.
///
/// Like Talos's balancer on every node, it knows the endpoint of the config and the control planes
/// that discovery shows; a control plane knows its own as well.
pub(super) fn api_server(land: &Land, gateways: &[IpAddr], vmid: u32) -> Result<Found, String> {
    let node = land.nodes.get(&vmid).ok_or_else(String::new)?;
    let config = node.config.as_ref().ok_or_else(String::new)?;
    let facts = &config.facts;
    let (host, port) = facts.endpoint.clone().unwrap_or_default();
    let mut problem = match host.parse::<IpAddr>() {
        Ok(_) => format!("dial tcp {host}:{port}: connect: connection refused"),
        Err(_) => format!("dial tcp: lookup {host}: no such host"),
    };
    let known = land.nodes.values().filter(|other| {
        other.is_control_plane() && (other.vmid == vmid || finds(land, node, other, gateways))
    });
    for other in known {
        let Some(membership) = other.etcd else { continue };
        let Some(cluster) = land.etcds.get(&membership.cluster) else { continue };
        if !cluster.api_servers.contains_key(&other.vmid) {
            continue;
        }
        let its_ca = other.config.as_ref().map(|config| config.facts.kube_ca.as_str());
        if its_ca != Some(facts.kube_ca.as_str()) {
            problem =
                "tls: failed to verify certificate: x509: certificate signed by unknown authority"
                    .to_owned();
        } else if !land.serves(membership) {
            problem = "the server was unable to return a response in the time allotted".to_owned();
        } else {
            return Ok(Found { cluster: membership.cluster, store: Arc::clone(&cluster.store) });
        }
    }
    Err(problem)
}
