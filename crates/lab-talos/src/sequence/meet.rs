//! How nodes find each other: by discovery, or by the endpoint of their cluster.

use std::net::IpAddr;

use super::super::service::ServiceState;
use super::super::talos_state::{Node, TalosState};

/// Whether a node learns where another one is, and can speak to it.
pub(crate) fn finds(talos: &TalosState, from: &Node, other: &Node, gateways: &[IpAddr]) -> bool {
    let (Some(own), Some(theirs)) = (&from.config, &other.config) else { return false };
    let (own, theirs) = (&own.facts, &theirs.facts);
    if from.vmid == other.vmid || !talos.is_connected(from.vmid, other.vmid) {
        return false;
    }
    // The discovery service is on the internet, and knows members of one cluster by its secret.
    let by_discovery = own.has_discovery
        && theirs.has_discovery
        && own.cluster_id == theirs.cluster_id
        && own.cluster_secret == theirs.cluster_secret
        && from.network.has_outside(gateways)
        && other.network.has_outside(gateways);
    let endpoint = own.endpoint.as_ref().and_then(|(host, _)| host.parse::<IpAddr>().ok());
    by_discovery || endpoint.is_some_and(|endpoint| other.network.has(endpoint))
}

/// The key with which a control plane that this worker finds signs its certificate: trustd wants the
/// right token. Or why there is none.
pub(super) fn signer(
    talos: &TalosState,
    worker: &Node,
    gateways: &[IpAddr],
) -> Result<String, &'static str> {
    let Some(own) = worker.config.as_ref().map(|config| &config.facts) else {
        return Err("no config");
    };
    let mut reason = "no control plane was found";
    for other in talos.nodes.values().filter(|other| other.is_control_plane()) {
        if !finds(talos, worker, other, gateways) {
            continue;
        }
        let trustd = other.services.get("trustd");
        if trustd.is_none_or(|trustd| trustd.state != ServiceState::Running) {
            reason = "trustd of the control plane does not run yet";
            continue;
        }
        let Some(theirs) = other.config.as_ref().map(|config| &config.facts) else { continue };
        if theirs.ca != own.ca {
            reason = "x509: certificate signed by unknown authority";
        } else if theirs.token != own.token {
            reason = "rpc error: code = Unauthenticated desc = invalid token";
        } else if let Some(key) = &theirs.ca_key {
            return Ok(key.clone());
        }
    }
    Err(reason)
}
