//! Nodes that the inventory has no longer: their VMs, and what the cluster still knows of them.

use std::collections::BTreeSet;

use super::Builder;
use super::change::{Change, Class, FieldChange, Finding, Object};
use super::place::{Placed, State};
use crate::observe::{EtcdSeen, KubernetesSeen, TalosSeen};

pub(super) fn plan(builder: &mut Builder<'_>) {
    let removed = builder.places.removed.clone();
    for (own, found) in &removed {
        let name = &own.identity.node;
        let fields = vec![
            FieldChange::new("vmid", Some(own.vm.vmid.to_string()), None),
            FieldChange::new("host", Some(found.seen.host.to_string()), None),
        ];
        let change = Change::open(Object::Vm(name.clone()), Class::Destroy, fields);
        builder.changes.push(change.note("the inventory has no such node any more"));
        let fields = known_of(builder, name);
        if !fields.is_empty() {
            let change = Change::open(Object::Node(name.clone()), Class::Destroy, fields);
            builder.changes.push(change);
        }
    }
    let findings = left_over(builder);
    builder.findings.extend(findings);
}

/// Where the cluster still counts on a node.
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

/// Whether all members of etcd that are none of the inventory's control planes are nodes that it had,
/// and that are still to go.
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
    let members = builder.world.nodes.values().filter_map(|seen| match seen {
        TalosSeen::Ours(found) => match &found.etcd {
            EtcdSeen::Member { names } => Some(names),
            _ => None,
        },
        _ => None,
    });
    members.flatten().map(String::as_str).collect()
}

fn registered<'a>(builder: &Builder<'a>) -> Option<&'a BTreeSet<String>> {
    match &builder.world.kubernetes {
        KubernetesSeen::Answers(registered) => Some(&registered.nodes),
        KubernetesSeen::NotAsked | KubernetesSeen::Silent(_) => None,
    }
}

/// Nodes that only Kubernetes still lists. They keep nobody from anything, and who joined by hand is one
/// as well: it is for people to say whether they go.
fn left_over(builder: &Builder<'_>) -> Vec<Finding> {
    let Some(nodes) = registered(builder) else { return vec![] };
    // A node that is there and is not registered may be so under a name that a patch gave it.
    let is_hidden = |placed: &Placed<'_>| {
        let is_there = !matches!(placed.state, State::Absent);
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
        let message = "Kubernetes lists it as a node, and neither the inventory has it nor a VM of the cluster";
        let hint = format!("if it is gone for good: kubectl delete node {name}");
        Finding::warning(name, message).hint(hint)
    };
    unknown.map(finding).collect()
}
