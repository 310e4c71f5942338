//! Orphans: owned VMs whose nodes are no longer in the inventory, and their remaining entries in etcd and Kubernetes.

use std::collections::BTreeSet;

use super::builder::Builder;
use super::placed::{Placed, VmPresence};
use crate::observed::{EtcdSeen, KubernetesSeen, TalosSeen};
use crate::plan::{Change, Class, FieldChange, Finding, FindingCode, Object};

pub(super) fn plan(builder: &mut Builder<'_>) {
    let removed = builder.places.removed.clone();
    for (own, found) in &removed {
        let name = &own.identity.node;
        let fields = vec![
            FieldChange::of("vmid", Some(own.vm.vmid.into()), None),
            FieldChange::new("host", Some(found.seen.host.to_string()), None),
        ];
        let change = Change::open(Object::Vm(name.clone()), Class::Destroy, fields);
        tracing::info!(target: "talmox::plan", subject = name, "skipped: no step destroys VM {}", own.vm.vmid);
        builder.changes.push(change.note("the node is no longer in the inventory"));
        let fields = known_of(builder, name);
        if !fields.is_empty() {
            let change = Change::open(Object::Node(name.clone()), Class::Destroy, fields);
            builder.changes.push(change);
        }
    }
    let findings = left_over(builder);
    builder.findings.extend(findings);
}

/// Where the cluster still lists a node.
fn known_of(builder: &Builder<'_>, name: &str) -> Vec<FieldChange> {
    let mut fields = vec![];
    if members(builder).contains(name) {
        fields.push(FieldChange::new("etcd", Some("member".to_owned()), None));
    }
    if registered(builder).is_some_and(|nodes| nodes.contains(name)) {
        fields.push(FieldChange::new("kubernetes", Some("registered".to_owned()), None));
    }
    fields
}

/// Whether all members of etcd that are not control planes of the inventory are orphans.
pub(super) fn explain_strange_members(builder: &Builder<'_>) -> bool {
    let mut strange = members(builder);
    for node in builder.desired.control_planes() {
        strange.remove(node.name.as_str());
    }
    let is_removed = |name: &&str| {
        builder.places.removed.iter().any(|(own, _)| own.identity.node.as_str() == *name)
    };
    !strange.is_empty() && strange.iter().all(is_removed)
}

fn members<'a>(builder: &Builder<'a>) -> BTreeSet<&'a str> {
    let members = builder.observed.nodes.values().filter_map(|seen| match seen {
        TalosSeen::OwnNode(found) => match &found.etcd {
            EtcdSeen::Member { names } => Some(names),
            _ => None,
        },
        _ => None,
    });
    members.flatten().map(String::as_str).collect()
}

fn registered<'a>(builder: &Builder<'a>) -> Option<&'a BTreeSet<String>> {
    match &builder.observed.kubernetes {
        KubernetesSeen::Answers(registered) => Some(&registered.nodes),
        KubernetesSeen::NotAsked | KubernetesSeen::Silent(_) => None,
    }
}

/// Nodes that only Kubernetes lists. They block nothing, and a node that joined by hand is one too: the user decides whether to
/// delete them.
fn left_over(builder: &Builder<'_>) -> Vec<Finding> {
    let Some(nodes) = registered(builder) else { return vec![] };
    // A node that exists and is not registered may be registered by a name that a patch gave it.
    let is_hidden = |placed: &Placed<'_>| {
        let is_there = !matches!(placed.state, VmPresence::Absent);
        placed.node.is_talos && is_there && !nodes.contains(&placed.node.name)
    };
    if builder.places.nodes.iter().any(is_hidden) {
        return vec![];
    }
    let is_known = |name: &&String| {
        builder.desired.nodes.iter().any(|node| node.name == **name)
            || builder.places.removed.iter().any(|(own, _)| own.identity.node == **name)
    };
    let unknown = nodes.iter().filter(|name| !is_known(name));
    let finding = |name: &String| {
        let message = "Kubernetes lists it as a node, but neither the inventory nor a VM of the cluster has this name";
        let hint = format!("if it is gone for good: kubectl delete node {name}");
        Finding::warning(FindingCode::NodeUnknown, name, message).hint(hint)
    };
    unknown.map(finding).collect()
}
