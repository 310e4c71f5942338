//! Choice of hosts for nodes without `host:` in the inventory.

use std::collections::BTreeMap;

use talmox_pve_types::id::NodeName;

use crate::desired::Desired;
use crate::observed::Pve;

type HostByNode<'a> = BTreeMap<&'a str, NodeName>;

/// Chooses a host for each node. A control plane is placed on the host with the fewest control planes. Workers are placed on
/// the hosts in turn. `standing` contains the hosts of the existing VMs, by node.
///
/// If the existing VMs are on the hosts that this function would choose for a new cluster, they do not change the result. So
/// an interrupted run is resumed with the same hosts, regardless of the VMs that it created.
pub(super) fn spread<'a>(
    desired: &'a Desired,
    pve: &Pve,
    standing: &HostByNode<'_>,
) -> HostByNode<'a> {
    let hosts: Vec<&NodeName> = match (desired.hosts.as_slice(), pve.resources.hosts.as_slice()) {
        ([], [only]) => vec![&only.node],
        (given, _) => given.iter().collect(),
    };
    let thought = control_planes(desired, &hosts, &HostByNode::new());
    let is_as_thought =
        thought.iter().all(|(name, host)| standing.get(name).is_none_or(|found| found == host));
    let control_planes =
        if is_as_thought { thought } else { control_planes(desired, &hosts, standing) };
    let open = desired.nodes.iter().filter(|node| node.host.is_none());
    let in_turn = open.zip(hosts.iter().copied().cycle());
    let mut all: HostByNode<'a> = in_turn.map(|(node, host)| (&*node.name, host.clone())).collect();
    all.extend(control_planes);
    all
}

/// The hosts of all control planes, including control planes with `host:` in the inventory.
fn control_planes<'a>(
    desired: &'a Desired,
    hosts: &[&NodeName],
    standing: &HostByNode<'_>,
) -> HostByNode<'a> {
    let expected = || desired.nodes.iter().filter(|node| node.is_control_plane);
    let fixed = expected().filter_map(|node| {
        let host = standing.get(&*node.name).or(node.host.as_ref())?;
        Some((&*node.name, host.clone()))
    });
    let mut all: HostByNode<'a> = fixed.collect();
    for node in expected() {
        let count = |host: &NodeName| all.values().filter(|other| *other == host).count();
        if !all.contains_key(&*node.name)
            && let Some(emptiest) = hosts.iter().min_by_key(|host| count(host))
        {
            all.insert(&node.name, (*emptiest).clone());
        }
    }
    all
}
