//! Search for an etcd cluster that a control plane can join.

use std::net::IpAddr;

use super::Member;
use crate::config::Facts;
use crate::sequence::can_discover;
use crate::talos_state::{Membership, Node, TalosState};

/// Result of the search, by a control plane that has no etcd data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FoundCluster {
    /// The node reaches no running etcd member.
    Nothing,
    /// The cluster accepts a new member now.
    Cluster(u64),
    /// A cluster exists, but it rejects the node for this reason.
    Rejected(String),
}

pub(super) fn find_cluster(talos: &TalosState, gateways: &[IpAddr], vmid: u32) -> FoundCluster {
    let Some(node) = talos.nodes.get(&vmid) else { return FoundCluster::Nothing };
    let Some(facts) = node.config.as_ref().map(|config| &config.facts) else {
        return FoundCluster::Nothing;
    };
    let mut rejection = None;
    for (id, cluster) in &talos.etcds {
        let is_seen = |member: &Member| {
            let other = talos.nodes.get(&member.vmid);
            member.is_up && other.is_some_and(|other| can_discover(talos, node, other, gateways))
        };
        let seen = cluster.members.iter().find(|(_, member)| is_seen(member));
        let Some((seen, _)) = seen else { continue };
        let membership = Membership { cluster: *id, member: *seen };
        match rejection_reason(talos, membership, node, facts) {
            None => return FoundCluster::Cluster(*id),
            Some(reason) => rejection = Some(reason),
        }
    }
    rejection.map_or(FoundCluster::Nothing, FoundCluster::Rejected)
}

/// Reason why a cluster does not accept this node as a new member; `None` if it accepts the node.
fn rejection_reason(
    talos: &TalosState,
    seen: Membership,
    node: &Node,
    facts: &Facts,
) -> Option<String> {
    let cluster = talos.etcds.get(&seen.cluster)?;
    if facts.etcd_ca.as_ref() != Some(&cluster.ca) {
        let text = "error building etcd client: transport: authentication handshake failed: tls: failed to verify certificate: x509: certificate signed by unknown authority";
        return Some(text.to_owned());
    }
    if !talos.has_quorum(seen) || cluster.leader.is_none() {
        return Some("error getting etcd members: etcdserver: request timed out".to_owned());
    }
    let address = node.etcd_address()?;
    let existing = cluster.members.iter().find(|(_, member)| member.peer == address);
    if let Some((id, _)) = existing {
        return Some(format!("member {id:x} has already been bootstrapped"));
    }
    if cluster.members.values().any(|member| member.is_learner) {
        return Some("etcdserver: too many learner members in cluster".to_owned());
    }
    None
}
