//! Plans of `talmox etcd remove-member`, `defrag` and `alarms --disarm`.

use std::collections::BTreeSet;

use super::placed::{Placed, VmPresence};
use super::placement::places;
use super::preflight;
use crate::desired::Desired;
use crate::observed::{EtcdSeen, Observed, TalosSeen};
use crate::plan::{
    Action, Change, Class, DefragEtcd, DisarmAlarms, FieldChange, Finding, FindingCode, Object,
    Plan, RemoveMember, StepGraph, StepId, TalosNode,
};

/// The plan that removes the etcd member with this name. If the control plane of the member is in the inventory and answers,
/// the plan has an error.
pub fn remove_member(desired: &Desired, observed: &Observed, member: &str) -> Plan {
    let mut plan = empty(desired);
    let places = places(desired, &observed.pve);
    let control_planes: Vec<&Placed<'_>> =
        places.nodes.iter().filter(|placed| is_control_plane(placed)).collect();
    let own = control_planes.iter().find(|placed| placed.node.name == member);
    if desired.control_planes().any(|node| node.name == member) && answers(observed, member) {
        let message = "its control plane answers, and is in the inventory";
        let hint = format!(
            "to remove the node, remove it from the inventory and run `talmox up`; to create it again, run `talmox node \
             replace {member}`"
        );
        let finding = Finding::error(FindingCode::EtcdMemberInUse, member, message).hint(hint);
        plan.findings.push(finding);
    }
    // The list also contains control planes that do not answer. The step reads their state again, and a repeated plan must be
    // the same.
    let others: Vec<TalosNode> = control_planes
        .iter()
        .filter(|placed| placed.node.name != member)
        .map(|placed| placed.talos_node())
        .collect();
    if !others.iter().any(|node| answers(observed, &node.name)) {
        let message = "no other control plane of the inventory answers";
        let finding = Finding::error(FindingCode::EtcdMemberInUse, member, message)
            .hint("run `talmox status` for the reason, and bring the control planes back first");
        plan.findings.push(finding);
    }
    let has_vm = |placed: &&&Placed<'_>| matches!(placed.state, VmPresence::Owned(_));
    let node = own.filter(has_vm).map(|placed| placed.talos_node());
    if node.is_some() {
        let message = "its VM exists: when the node runs again, its etcd cannot join";
        let hint = format!("run `talmox node replace {member}` afterwards");
        plan.findings.push(Finding::warning(FindingCode::NodeDown, member, message).hint(hint));
    }
    let fields = vec![FieldChange::new("etcd", Some("member".to_owned()), None)];
    plan.changes.push(Change::planned(Object::Node(member.to_owned()), Class::Destroy, fields));
    let remove = RemoveMember {
        member: member.to_owned(),
        node,
        others,
        deadline: desired.timeouts.bootstrap,
    };
    let mut steps = StepGraph::default();
    let id = format!("etcd/{member}/leave");
    steps.add(id, Some(member), [], Action::RemoveMember(remove));
    finish(desired, observed, plan, steps)
}

/// The plan that defragments the databases of these control planes one after the other, with the leader last.
pub fn defragment(desired: &Desired, observed: &Observed, nodes: &BTreeSet<String>) -> Plan {
    let mut plan = empty(desired);
    let places = places(desired, &observed.pve);
    let mut chosen: Vec<&Placed<'_>> = places
        .nodes
        .iter()
        .filter(|placed| is_control_plane(placed) && nodes.contains(&placed.node.name))
        .collect();
    chosen.sort_by_key(|placed| is_leader(observed, &placed.node.name));
    // A member does not answer while its database is defragmented, so all other members must answer.
    for node in desired.control_planes().filter(|node| !is_member(observed, &node.name)) {
        let message = "its etcd does not answer";
        let finding = Finding::error(FindingCode::EtcdUnhealthy, &node.name, message).hint(
            "bring it back first: while a member is defragmented, all other members must answer",
        );
        plan.findings.push(finding);
    }
    let mut steps = StepGraph::default();
    let mut last: Option<StepId> = None;
    for placed in chosen {
        let name = &placed.node.name;
        let fields = vec![FieldChange::set("etcd database", "defragmented")];
        plan.changes.push(Change::planned(Object::Node(name.clone()), Class::Live, fields));
        let defrag = DefragEtcd { node: placed.talos_node(), deadline: desired.timeouts.bootstrap };
        let id = format!("etcd/{name}/defrag");
        last = Some(steps.add(id, Some(name), last, Action::DefragEtcd(defrag)));
    }
    finish(desired, observed, plan, steps)
}

/// The plan that clears all alarms of etcd.
pub fn disarm_alarms(desired: &Desired, observed: &Observed) -> Plan {
    let mut plan = empty(desired);
    let places = places(desired, &observed.pve);
    let nodes: Vec<TalosNode> = places
        .nodes
        .iter()
        .filter(|placed| is_control_plane(placed))
        .map(Placed::talos_node)
        .collect();
    let mut steps = StepGraph::default();
    if !nodes.iter().any(|node| answers(observed, &node.name)) {
        let message = "no control plane answers";
        let finding = Finding::error(FindingCode::EtcdUnhealthy, &desired.cluster, message)
            .hint("run `talmox status` for the reason");
        plan.findings.push(finding);
        return finish(desired, observed, plan, steps);
    }
    let fields = vec![FieldChange::new("etcd alarms", Some("active".to_owned()), None)];
    let object = Object::Cluster(desired.cluster.clone());
    plan.changes.push(Change::planned(object, Class::Live, fields));
    let disarm = DisarmAlarms { nodes, deadline: desired.timeouts.task };
    steps.add("etcd/disarm", None, [], Action::DisarmAlarms(disarm));
    finish(desired, observed, plan, steps)
}

fn empty(desired: &Desired) -> Plan {
    Plan { cluster: desired.cluster.clone(), changes: vec![], findings: vec![], steps: vec![] }
}

fn finish(desired: &Desired, observed: &Observed, mut plan: Plan, steps: StepGraph) -> Plan {
    plan.steps = steps.in_order();
    if !plan.steps.is_empty() {
        plan.findings.extend(preflight::lock_finding(&observed.pve, &desired.login, false));
    }
    Finding::sort(&mut plan.findings);
    plan
}

fn is_control_plane(placed: &Placed<'_>) -> bool {
    placed.node.is_control_plane && placed.node.is_talos
}

/// Whether a node answers at its address.
fn answers(observed: &Observed, name: &str) -> bool {
    matches!(observed.nodes.get(name), Some(TalosSeen::OwnNode(_)))
}

fn is_leader(observed: &Observed, name: &str) -> bool {
    matches!(observed.nodes.get(name), Some(TalosSeen::OwnNode(found)) if found.is_leader)
}

/// Whether the etcd member of a node answers.
fn is_member(observed: &Observed, name: &str) -> bool {
    let is_member = |etcd: &EtcdSeen| matches!(etcd, EtcdSeen::Member { .. });
    matches!(observed.nodes.get(name), Some(TalosSeen::OwnNode(found)) if is_member(&found.etcd))
}
