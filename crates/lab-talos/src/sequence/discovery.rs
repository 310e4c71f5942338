//! Discovery of other nodes, through the discovery service or the endpoint of the cluster.

use std::net::IpAddr;

use super::super::service::ServiceState;
use super::super::talos_state::{Node, TalosState};

/// Whether a node can discover another node and reach it.
pub(crate) fn can_discover(
    talos: &TalosState,
    from: &Node,
    other: &Node,
    gateways: &[IpAddr],
) -> bool {
    let (Some(own), Some(peer)) = (&from.config, &other.config) else { return false };
    let (own, peer) = (&own.facts, &peer.facts);
    if from.vmid == other.vmid || !talos.is_connected(from.vmid, other.vmid) {
        return false;
    }
    // The discovery service is on the internet. It identifies the members of a cluster by the secret of the cluster.
    let by_discovery = own.has_discovery
        && peer.has_discovery
        && own.cluster_id == peer.cluster_id
        && own.cluster_secret == peer.cluster_secret
        && from.network.has_internet(gateways)
        && other.network.has_internet(gateways);
    let endpoint = own.endpoint.as_ref().and_then(|(host, _)| host.parse::<IpAddr>().ok());
    by_discovery || endpoint.is_some_and(|endpoint| other.network.has(endpoint))
}

/// Private key of the Talos CA, from a reachable control plane that signs the certificate of this worker. The error is the
/// reason why no control plane signs it. trustd requires the machine token.
pub(super) fn signing_key(
    talos: &TalosState,
    worker: &Node,
    gateways: &[IpAddr],
) -> Result<String, &'static str> {
    let Some(own) = worker.config.as_ref().map(|config| &config.facts) else {
        return Err("no config");
    };
    let mut reason = "no control plane found";
    for other in talos.nodes.values().filter(|other| other.is_control_plane()) {
        if !can_discover(talos, worker, other, gateways) {
            continue;
        }
        let trustd = other.services.get("trustd");
        if trustd.is_none_or(|trustd| trustd.state != ServiceState::Running) {
            reason = "trustd of the control plane is not running";
            continue;
        }
        let Some(peer) = other.config.as_ref().map(|config| &config.facts) else { continue };
        if peer.ca != own.ca {
            reason = "x509: certificate signed by unknown authority";
        } else if peer.token != own.token {
            reason = "rpc error: code = Unauthenticated desc = invalid token";
        } else if let Some(key) = &peer.ca_key {
            return Ok(key.clone());
        }
    }
    Err(reason)
}
