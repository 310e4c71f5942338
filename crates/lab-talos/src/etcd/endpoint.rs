//! Choice of the etcd member that answers a call of the Talos API.

use std::net::IpAddr;

use super::Member;
use crate::sequence::can_discover;
use crate::talos_state::{Node, TalosState};

/// Members that the etcd client of machined connects to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoints {
    /// The member of the node itself.
    Local,
    /// The members of all control planes that the node has discovered.
    ControlPlanes,
}

/// vmid of the node whose etcd member answers the call; `None` while no member serves clients. Then the etcd client waits, and
/// reports no error.
pub(crate) fn endpoint(
    talos: &TalosState,
    gateways: &[IpAddr],
    vmid: u32,
    endpoints: Endpoints,
) -> Option<u32> {
    let node = talos.nodes.get(&vmid);
    // On a worker, machined rejects the call before it connects to etcd.
    let Some(node) = node.filter(|node| node.is_control_plane()) else { return Some(vmid) };
    if talos.serves_clients(node) {
        return Some(vmid);
    }
    if endpoints == Endpoints::Local {
        return None;
    }
    let authority = |node: &Node| node.config.as_ref().and_then(|own| own.facts.etcd_ca.clone());
    let mut others = talos.nodes.values().filter(|other| {
        talos.serves_clients(other)
            && can_discover(talos, node, other, gateways)
            && authority(other) == authority(node)
    });
    others.next().map(|other| other.vmid)
}

impl TalosState {
    /// Whether the etcd process of the node runs.
    pub(super) fn runs_etcd(&self, node: &Node) -> bool {
        self.own_member(node).is_some_and(|own| own.is_up)
    }

    fn serves_clients(&self, node: &Node) -> bool {
        self.own_member(node).is_some_and(|own| own.is_up && own.serves_clients)
    }

    fn own_member(&self, node: &Node) -> Option<&Member> {
        let own = node.etcd?;
        self.etcds.get(&own.cluster)?.members.get(&own.member)
    }
}
