//! Members of etcd without a node in the inventory: members of orphans, and members without a VM.

use std::collections::BTreeSet;

use super::builder::Builder;
use super::etcd_voters::members;
use super::unreadable;
use crate::observed::{EtcdSeen, KubernetesSeen, TalosSeen};

/// Whether all etcd members that are not control planes of the inventory are orphans, nodes with a changed role, or reported
/// as stale. The health of the cluster does not depend on such members.
pub(super) fn explain_strange_members(builder: &Builder<'_>) -> bool {
    let strange = strange_members(builder);
    let stale = stale_members(builder);
    // A former control plane that is now a worker in the inventory is reported as a change of its role.
    let is_known = |name: &&str| {
        is_orphan(builder, name)
            || builder.desired.node(name).is_some()
            || stale.iter().any(|one| one == name)
    };
    !strange.is_empty() && strange.iter().all(is_known)
}

/// The etcd members that are not control planes of the inventory.
fn strange_members<'a>(builder: &Builder<'a>) -> BTreeSet<&'a str> {
    let mut strange = members(builder);
    for node in builder.desired.control_planes() {
        strange.remove(node.name.as_str());
    }
    strange
}

fn is_orphan(builder: &Builder<'_>, name: &str) -> bool {
    builder.places.removed.iter().any(|(own, _)| own.identity.node == name)
}

/// The etcd members whose machine is gone: neither the inventory nor an orphan has their name, and Kubernetes does not list
/// them as ready. Empty if this is not certain.
pub(super) fn stale_members(builder: &Builder<'_>) -> Vec<String> {
    let KubernetesSeen::Answers(registered) = &builder.observed.kubernetes else { return vec![] };
    let pve = &builder.observed.pve;
    // A VM that cannot be read may be the VM of the member.
    if !pve.unread.is_empty() || unreadable::unreadable(pve).next().is_some() {
        return vec![];
    }
    // A patch may have given a control plane another hostname. Then the inventory does not contain the name of its member.
    if builder.desired.control_planes().any(|node| is_listed_otherwise(builder, &node.name)) {
        return vec![];
    }
    let is_gone = |name: &&str| {
        let is_ready = registered.nodes.contains(*name) && !registered.unready.contains(*name);
        // A member that has not started has no name.
        let is_named = !name.is_empty() && builder.desired.node(name).is_none();
        is_named && !is_orphan(builder, name) && !is_ready
    };
    strange_members(builder).into_iter().filter(is_gone).map(str::to_owned).collect()
}

/// Whether a control plane is a member of etcd under another name than its name in the inventory.
fn is_listed_otherwise(builder: &Builder<'_>, name: &str) -> bool {
    let Some(TalosSeen::OwnNode(found)) = builder.observed.nodes.get(name) else { return false };
    match &found.etcd {
        EtcdSeen::Member { names } => !names.iter().any(|one| one == name),
        _ => false,
    }
}
