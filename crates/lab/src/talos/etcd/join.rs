//! Finding a cluster to be a member of.

use std::net::IpAddr;

use super::Member;
use crate::talos::config::Facts;
use crate::talos::land::{Land, Membership, Node};
use crate::talos::wire::Wire;

/// What a control plane without data finds when it looks for others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nobody runs etcd, as far as it can see.
    Nothing,
    /// A cluster that takes a new member now.
    Cluster(u64),
    /// Somebody is there, but will not have it, and why.
    Refused(String),
}

pub(super) fn look(land: &Land, wire: &Wire, vmid: u32) -> Found {
    let Some(node) = land.nodes.get(&vmid) else { return Found::Nothing };
    let Some(facts) = node.config.as_ref().map(|config| &config.facts) else {
        return Found::Nothing;
    };
    let mut refusal = None;
    for (id, cluster) in &land.etcds {
        let is_seen = |member: &Member| {
            member.vmid != vmid
                && member.is_up
                && land.is_connected(vmid, member.vmid)
                && land.nodes.get(&member.vmid).is_some_and(|other| knows(wire, facts, other))
        };
        let seen = cluster.members.iter().find(|(_, member)| is_seen(member));
        let Some((seen, _)) = seen else { continue };
        let membership = Membership { cluster: *id, member: *seen };
        match refuses(land, membership, node, facts) {
            None => return Found::Cluster(*id),
            Some(reason) => refusal = Some(reason),
        }
    }
    refusal.map_or(Found::Nothing, Found::Refused)
}

/// Whether a node learns of another: by discovery, or because it answers at the endpoint.
fn knows(wire: &Wire, facts: &Facts, other: &Node) -> bool {
    let Some(others) = other.config.as_ref().map(|config| &config.facts) else { return false };
    let is_discovered = facts.has_discovery
        && others.has_discovery
        && facts.cluster_id == others.cluster_id
        && facts.cluster_secret == others.cluster_secret;
    let at_endpoint = facts.endpoint.as_ref().is_some_and(|(host, port)| {
        let address = host.parse::<IpAddr>();
        address.is_ok_and(|address| wire.answering(address, *port).contains(&other.vmid))
            && facts.kube_ca == others.kube_ca
    });
    is_discovered || at_endpoint
}

/// Why a cluster does not take this node as a new member.
fn refuses(land: &Land, seen: Membership, node: &Node, facts: &Facts) -> Option<String> {
    let cluster = land.etcds.get(&seen.cluster)?;
    if facts.etcd_ca.as_ref() != Some(&cluster.ca) {
        let text = "error building etcd client: transport: authentication handshake failed: tls: failed to verify certificate: x509: certificate signed by unknown authority";
        return Some(text.to_owned());
    }
    if !land.has_quorum(seen) || cluster.leader.is_none() {
        return Some("error getting etcd members: etcdserver: request timed out".to_owned());
    }
    let address = node.network.node_address()?;
    let twin = cluster.members.iter().find(|(_, member)| member.peer == address);
    if let Some((id, _)) = twin {
        return Some(format!("member {id:x} has already been bootstrapped"));
    }
    if cluster.members.values().any(|member| member.is_learner) {
        return Some("etcdserver: too many learner members in cluster".to_owned());
    }
    None
}
