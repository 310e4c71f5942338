//! Forwarding of calls to other nodes. Control planes forward calls, workers reject such calls.

use std::net::{IpAddr, SocketAddr};

use hyper::HeaderMap;
use talmox_talos_api::server::Status;

use super::{Session, method};
use crate::talos_state::{Node, TalosState};

const PORT: u16 = 50000;

/// Nodes that must answer a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CallTarget {
    Here,
    /// One other node. Its answer is returned unchanged.
    One(String),
    /// Several nodes. Their answers are merged.
    Many(Vec<String>),
}

pub(super) fn route(
    session: &Session,
    path: &str,
    headers: &HeaderMap,
) -> Result<CallTarget, Status> {
    // A node in maintenance mode forwards no call, even if the caller names other nodes.
    if session.is_anonymous() || headers.contains_key("proxyfrom") {
        return Ok(CallTarget::Here);
    }
    let (one, many) = (values(headers, "node"), values(headers, "nodes"));
    if one.len() > 1 {
        return Err(Status::invalid_argument("node metadata must be single-valued"));
    }
    let (forwards, is_13) =
        session.node(|node| (node.is_control_plane(), node.version.is_at_least(13)))?;
    let is_here = |name: &str| session.node(|node| is_own_name(node, name));
    if !forwards {
        let only = match (one.as_slice(), many.as_slice()) {
            ([only], []) | ([], [only]) => is_here(only)?,
            (one, many) => one.is_empty() && many.is_empty(),
        };
        return if only {
            Ok(CallTarget::Here)
        } else {
            Err(Status::permission_denied("no request forwarding"))
        };
    }
    if !many.is_empty() {
        if !method::allows_several_nodes(path, is_13) {
            let what = if is_13 { format!("method {path}") } else { "COSI methods".to_owned() };
            let text = format!("one-2-many proxying is not supported for {what}");
            return Err(Status::invalid_argument(text));
        }
        return Ok(CallTarget::Many(many));
    }
    Ok(one.into_iter().next().map_or(CallTarget::Here, CallTarget::One))
}

/// All values of a metadata key. One header may contain several values.
fn values(headers: &HeaderMap, name: &str) -> Vec<String> {
    let texts = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    let items = texts.flat_map(|text| text.split(',')).map(str::trim);
    items.filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

fn is_own_name(node: &Node, name: &str) -> bool {
    match name.parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || node.network.has(address),
        Err(_) => name == "localhost" || node.hostname() == name,
    }
}

/// Opens a session with another node. The session has the roles of the caller.
pub(super) fn dial(session: &Session, target: &str) -> Result<Session, Status> {
    let unavailable = |problem: &str| {
        Status::unavailable(format!("connection error: desc = \"transport: {problem}\""))
    };
    let dialing = |at: SocketAddr, problem: &str| {
        unavailable(&format!("Error while dialing: dial tcp {at}: connect: {problem}"))
    };
    session.look(|talos, node| {
        if is_own_name(node, target) {
            return Ok(session.clone());
        }
        let address = target.parse().ok().or_else(|| address_of(talos, node, target));
        let Some(address) = address else {
            return Err(unavailable(&format!(
                "Error while dialing: dial tcp: lookup {target}: no such host"
            )));
        };
        let at = SocketAddr::new(address, PORT);
        let mut reachable =
            talos.holders(address).filter(|other| talos.is_connected(node.vmid, other.vmid));
        if reachable.clone().next().is_none() {
            return Err(dialing(at, "no route to host"));
        }
        let answering = session.simulation.loopback_network.answering(address, PORT);
        let Some(found) = reachable.find(|other| answering.contains(&other.vmid)) else {
            return Err(dialing(at, "connection refused"));
        };
        let authority = |node: &Node| node.config.as_ref().map(|config| config.facts.ca.clone());
        if authority(found).is_none() || authority(found) != authority(node) {
            return Err(unavailable(
                "authentication handshake failed: tls: failed to verify certificate: x509: \
                 certificate signed by unknown authority",
            ));
        }
        Ok(Session { vmid: found.vmid, boot: found.boot, ..session.clone() })
    })?
}

/// Address of the cluster member with this host name.
fn address_of(talos: &TalosState, node: &Node, name: &str) -> Option<IpAddr> {
    let cluster = |node: &Node| Some(node.config.as_ref()?.facts.cluster_id.clone());
    let mut others = talos.nodes.values();
    others
        .find(|other| other.hostname() == name && cluster(other) == cluster(node))
        .and_then(crate::talos_state::Node::node_address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_values_are_read_from_one_or_several_headers() {
        let mut headers = HeaderMap::new();
        headers.append("nodes", "10.0.0.1, 10.0.0.2".parse().unwrap());
        headers.append("nodes", "10.0.0.3".parse().unwrap());
        assert_eq!(values(&headers, "nodes"), ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
        assert!(values(&headers, "node").is_empty());
    }
}
