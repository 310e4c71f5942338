//! Finding a cluster to be a member of.

use std::net::IpAddr;

use super::Member;
use crate::config::Facts;
use crate::sequence::finds;
use crate::talos_state::{Membership, Node, TalosState};

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

pub(super) fn look(talos: &TalosState, gateways: &[IpAddr], vmid: u32) -> Found {
    let Some(node) = talos.nodes.get(&vmid) else { return Found::Nothing };
    let Some(facts) = node.config.as_ref().map(|config| &config.facts) else {
        return Found::Nothing;
    };
    let mut refusal = None;
    for (id, cluster) in &talos.etcds {
        let is_seen = |member: &Member| {
            let other = talos.nodes.get(&member.vmid);
            member.is_up && other.is_some_and(|other| finds(talos, node, other, gateways))
        };
        let seen = cluster.members.iter().find(|(_, member)| is_seen(member));
        let Some((seen, _)) = seen else { continue };
        let membership = Membership { cluster: *id, member: *seen };
        match refuses(talos, membership, node, facts) {
            None => return Found::Cluster(*id),
            Some(reason) => refusal = Some(reason),
        }
    }
    refusal.map_or(Found::Nothing, Found::Refused)
}

/// Why a cluster does not take this node as a new member.
fn refuses(talos: &TalosState, seen: Membership, node: &Node, facts: &Facts) -> Option<String> {
    let cluster = talos.etcds.get(&seen.cluster)?;
    if facts.etcd_ca.as_ref() != Some(&cluster.ca) {
        let text = "error building etcd client: transport: authentication handshake failed: tls: failed to verify certificate: x509: certificate signed by unknown authority";
        return Some(text.to_owned());
    }
    if !talos.has_quorum(seen) || cluster.leader.is_none() {
        return Some("error getting etcd members: etcdserver: request timed out".to_owned());
    }
    let address = node.etcd_address()?;
    let twin = cluster.members.iter().find(|(_, member)| member.peer == address);
    if let Some((id, _)) = twin {
        return Some(format!("member {id:x} has already been bootstrapped"));
    }
    if cluster.members.values().any(|member| member.is_learner) {
        return Some("etcdserver: too many learner members in cluster".to_owned());
    }
    None
}
