//! Replacement of nodes: the VM is destroyed and created again, with the same name and identity.
//!
//! A node is replaced if the user requested it, if the role of the node changed, or if an earlier run stopped after the node
//! left etcd. A node is also replaced if its VM or its config has a difference that no change of the existing VM can remove.
//! The disks of the node are lost, so the user must consent. A replaced node leaves the cluster like a removed node, and joins
//! it like a new node.

use talmox_pve_types::api::qemu::Vm;
use talmox_pve_types::id::VmId;

use super::address_change::AddressChange;
use super::builder::Builder;
use super::etcd_voters::{EtcdVoters, WithoutMember, others_now, unknown_member};
use super::leaving_node::{LeavingNode, destroy_id, leave_id};
use super::placed::{ObservedVm, Placed, VmPresence};
use super::removal::{self, Obstacle};
use super::scope::Part;
use super::vm_plan::VmPlan;
use super::{first_role, left_etcd, node_drift, vm_creation};
use crate::observed::{IdSeen, TalosSeen};
use crate::plan::{Change, Class, FieldChange, Left, Object, OwnVm, StepId};

const LOSS: &str = "the VM is destroyed and created again, and the data on its disks is lost";
const ASKED: &str = "its replacement was requested";
const ETCD_SILENT: &str =
    "etcd of the cluster does not answer: a node is replaced only while etcd works without it";
const ONLY_ONE: &str = "it is the only control plane, and etcd would be lost with it: add two control planes first, \
                        and let them join";

/// Why a node must be replaced.
struct Reason {
    /// The differences that a replacement resolves.
    fields: Vec<FieldChange>,
    /// Explanations for the user.
    notes: Vec<String>,
    /// Whether the VM can no longer be used for the node: it was created for another role, or the node left etcd.
    is_unusable: bool,
}

/// Plans the replacement of a node whose VM exists, if a replacement is needed. `made` is the plan that keeps the VM. The
/// changes from index `before` on belong to that plan.
pub(super) fn plan(
    builder: &mut Builder<'_>,
    placed: &Placed<'_>,
    found: &ObservedVm<'_>,
    before: usize,
    made: VmPlan,
) -> VmPlan {
    let Some(reason) = reason(builder, placed, found, before) else { return made };
    let leaving = LeavingNode::placed(builder, placed, found);
    match obstacle(builder, placed, found, &leaving) {
        Some(obstacle) => leave(builder, placed, before, &reason, obstacle, made),
        None => replace(builder, placed, &leaving, before, reason),
    }
}

/// Whether the plan replaces this node.
pub(super) fn is_planned(builder: &Builder<'_>, name: &str) -> bool {
    builder.steps.has(&StepId::new(destroy_id(name)))
}

/// Whether the machine that answers at the address of a node may be the VM that the plan replaces.
pub(super) fn may_answer(builder: &Builder<'_>, name: &str) -> bool {
    if !is_planned(builder, name) {
        return false;
    }
    match builder.observed.nodes.get(name) {
        Some(TalosSeen::OwnNode(found)) => {
            node_drift::hostname(builder.desired, found).is_none_or(|own| own == name)
        }
        Some(TalosSeen::OtherMachine(_) | TalosSeen::NoAccess(_)) => false,
        Some(TalosSeen::Maintenance { mismatch }) => mismatch.is_none(),
        _ => true,
    }
}

fn reason(
    builder: &Builder<'_>,
    placed: &Placed<'_>,
    found: &ObservedVm<'_>,
    before: usize,
) -> Option<Reason> {
    let name = &placed.node.name;
    let mut reason = Reason { fields: vec![], notes: vec![], is_unusable: false };
    let is_asked = builder.scope.replace.contains(name);
    if is_asked {
        reason.notes.push(ASKED.to_owned());
    }
    if let Some(role) = first_role::change(placed.node, &found.marker) {
        reason.fields.push(role);
        reason.is_unusable = true;
    }
    if left_etcd::has_left(builder, name) {
        reason.notes.push(format!("{}; `talmox node replace {name}` finishes it", left_etcd::LEFT));
        reason.is_unusable = true;
    }
    for change in builder.changes[before..].iter().filter(|change| is_resolved(change, name)) {
        reason.fields.extend(change.fields.iter().cloned());
        reason.notes.extend(change.note.clone());
    }
    let addresses = new_addresses(builder, placed, found);
    reason.fields.extend(addresses);
    (is_asked || reason.is_unusable || !reason.fields.is_empty()).then_some(reason)
}

/// Whether this change is a difference of the VM that the plan leaves and that a replacement would resolve.
fn is_resolved(change: &Change, name: &str) -> bool {
    let is_of_vm = matches!(&change.object, Object::Vm(own) if own == name);
    let is_left = matches!(change.left, Some(Left::NeedsConsent | Left::NotSelected));
    is_of_vm && is_left && change.class == Class::Replace
}

/// Differences of the machine config that take effect only with a new VM: addresses that the node keeps from its first boot.
fn new_addresses(
    builder: &Builder<'_>,
    placed: &Placed<'_>,
    found: &ObservedVm<'_>,
) -> Vec<FieldChange> {
    let Some(TalosSeen::OwnNode(seen)) = builder.observed.nodes.get(&placed.node.name) else {
        return vec![];
    };
    let node = placed.node.as_created(found.config);
    let Some(config) = &seen.config else { return vec![] };
    let release = node_drift::release(builder.desired, seen);
    let differences = node_drift::differences(config, &node.config, release).unwrap_or_default();
    let needs_vm = |field: &FieldChange| {
        let change = AddressChange::of_config(&field.path);
        change.is_some_and(|change| change.running_class(&node).0 == Class::Replace)
    };
    differences.into_iter().filter(needs_vm).collect()
}

/// Why a node is not replaced. None if its replacement can be planned.
fn obstacle(
    builder: &mut Builder<'_>,
    placed: &Placed<'_>,
    found: &ObservedVm<'_>,
    leaving: &LeavingNode,
) -> Option<Obstacle> {
    let name = &placed.node.name;
    if !builder.scope.allows(name, Part::Vms) {
        return Some(Obstacle::of(Left::NotSelected));
    }
    let voters = EtcdVoters::now(builder);
    if leaving.is_talos && !removal::is_etcd_settled(builder, &voters) {
        return Some(Obstacle::noted(Left::Blocked, ETCD_SILENT));
    }
    if leaving.has_etcd {
        if let Some(note) = unknown_member(builder) {
            return Some(Obstacle::noted(Left::Blocked, note));
        }
        match voters.without(name) {
            Ok(_) => {}
            Err(WithoutMember::Last) => {
                return Some(Obstacle::noted(Left::Impossible, ONLY_ONE));
            }
            Err(why) => return Some(Obstacle::noted(Left::Blocked, why.note())),
        }
    }
    let vmid = new_place(builder, placed).vm.vmid;
    if vmid != placed.own.vm.vmid && is_used(builder, vmid) {
        let note = format!("vmid {vmid} is in use");
        return Some(Obstacle::noted(Left::Impossible, note));
    }
    if let Some(obstacle) = removal::protection(builder, &placed.own, found) {
        return Some(obstacle);
    }
    (!builder.scope.removal.covers(name)).then(|| Obstacle::of(Left::NeedsConsent))
}

fn is_used(builder: &Builder<'_>, vmid: VmId) -> bool {
    let pve = &builder.observed.pve;
    pve.guest(vmid).is_some()
        || pve.vms.contains_key(&vmid)
        || matches!(pve.ids.get(&vmid), Some(IdSeen::Taken { .. }))
        || builder.places.nodes.iter().any(|placed| placed.own.vm.vmid == vmid)
}

/// Reports a replacement that is not made. The VM stays in use, unless it can no longer be used for the node.
fn leave(
    builder: &mut Builder<'_>,
    placed: &Placed<'_>,
    before: usize,
    reason: &Reason,
    obstacle: Obstacle,
    made: VmPlan,
) -> VmPlan {
    let name = &placed.node.name;
    let is_unusable = reason.is_unusable;
    // Differences that a replacement would resolve are shown once, together with the reason.
    let mut kept = builder.changes.split_off(before);
    kept.retain(|change| !is_resolved(change, name) && (!is_unusable || is_ignored(change)));
    builder.changes.append(&mut kept);
    let notes = reason.notes.iter().cloned().chain(obstacle.note);
    let notes: Vec<String> = notes.chain([LOSS.to_owned()]).collect();
    let own = Object::Vm(name.clone());
    let change = Change::left(own, Class::Replace, reason.fields.clone(), obstacle.why);
    builder.changes.push(change.note(notes.join("; ")));
    if is_unusable {
        builder.steps.remove_of(name);
        builder.node_changes.remove(name);
        return VmPlan::default();
    }
    made
}

/// Whether the inventory accepts the difference.
fn is_ignored(change: &Change) -> bool {
    change.left == Some(Left::Ignored)
}

/// Plans the steps that replace the old VM by the new VM.
fn replace(
    builder: &mut Builder<'_>,
    placed: &Placed<'_>,
    leaving: &LeavingNode,
    before: usize,
    reason: Reason,
) -> VmPlan {
    let name = &placed.node.name;
    let mut kept = builder.changes.split_off(before);
    kept.retain(is_ignored);
    builder.changes.append(&mut kept);
    let before = builder.changes.len();
    builder.steps.remove_of(name);
    builder.node_changes.remove(name);
    let others = others_now(builder, name);
    let destroyed = leaving.leave(builder, others, true, vec![]);
    let new =
        Placed { node: placed.node, own: new_place(builder, placed), state: VmPresence::Absent };
    let plan = vm_creation::make(builder, &new, None, vec![destroyed.clone()]);
    prepare_first(builder, name, &destroyed);
    let own = Object::Vm(name.clone());
    let created = builder.changes[before..].iter_mut().find(|change| change.object == own);
    if let Some(change) = created {
        change.class = Class::Replace;
        if !reason.fields.is_empty() {
            change.fields = reason.fields;
        }
        let notes: Vec<String> = reason.notes.into_iter().chain([LOSS.to_owned()]).collect();
        change.note = Some(notes.join("; "));
    }
    plan
}

/// Orders the replacement after all steps that the new VM needs, such as the fetch of its image. If one of these steps fails,
/// the old VM stays.
fn prepare_first(builder: &mut Builder<'_>, name: &str, destroyed: &StepId) {
    let making = ["create", "clone"].map(|making| StepId::new(format!("vm/{name}/{making}")));
    let made = builder.steps.iter().filter(|step| making.contains(&step.id));
    let needed: Vec<StepId> =
        made.flat_map(|step| &step.after).filter(|id| *id != destroyed).cloned().collect();
    let Some(first) = first_step(builder, name) else { return };
    for step in &needed {
        builder.steps.put_behind(&first, step);
    }
}

/// The VM that the node gets. It has the same vmid and host as the old VM, unless the inventory sets others.
fn new_place(builder: &Builder<'_>, placed: &Placed<'_>) -> OwnVm {
    let host = placed.node.host.as_ref().filter(|host| builder.observed.pve.is_online(host));
    let host = host.unwrap_or(&placed.own.vm.node);
    let vmid = placed.node.vmid.unwrap_or(placed.own.vm.vmid);
    OwnVm { vm: Vm::new(host, vmid), identity: placed.own.identity.clone() }
}

/// Updates the placements of replaced nodes. From here on, these nodes count as nodes without a VM.
pub(super) fn move_placements(builder: &mut Builder<'_>) {
    let seen: &Builder<'_> = builder;
    let replaced: Vec<(usize, OwnVm)> = (0..)
        .zip(&seen.places.nodes)
        .filter(|(_, placed)| is_planned(seen, &placed.node.name))
        .map(|(at, placed)| (at, new_place(seen, placed)))
        .collect();
    for (at, own) in replaced {
        builder.places.nodes[at].own = own;
        builder.places.nodes[at].state = VmPresence::Absent;
    }
}

/// Reports nodes whose replacement was requested, but whose VM cannot be destroyed. A VM on a host that is down may start
/// again with its host, and then two machines would have one identity.
pub(super) fn check(builder: &mut Builder<'_>) {
    let names = builder.scope.replace.iter();
    let is_placed = |name: &&String| {
        builder.places.nodes.iter().any(|placed| {
            placed.node.name == **name && !matches!(placed.state, VmPresence::Blocked)
        })
    };
    let is_known = |name: &&String| builder.desired.node(name).is_some();
    let left = names.filter(is_known).filter(|name| !is_placed(name)).map(|name| {
        let note = "its VM cannot be read or used, and may run again later: it is neither destroyed nor created a second time";
        Change::left(Object::Vm(name.clone()), Class::Replace, vec![], Left::Blocked).note(note)
    });
    let left: Vec<Change> = left.collect();
    builder.changes.extend(left);
}

/// Orders the replacements, after the steps of all nodes are planned. They come after all nodes that join or come back. The
/// first worker is replaced alone, then the other workers within the limit of unavailable workers. Control planes follow one
/// by one, with the etcd leader last.
pub(super) fn order(builder: &mut Builder<'_>) {
    let (mut planes, mut workers, mut others) = (vec![], vec![], vec![]);
    for placed in &builder.places.nodes {
        let name = &placed.node.name;
        if !is_planned(builder, name) {
            others.extend(returned(builder, name));
        } else if placed.node.is_control_plane || builder.steps.has(&StepId::new(leave_id(name))) {
            planes.push((is_leader(builder, name), name.clone()));
        } else {
            workers.push(name.clone());
        }
    }
    planes.sort();
    let planes: Vec<String> = planes.into_iter().map(|(_, name)| name).collect();
    let window = builder.scope.max_unavailable.get();
    for (at, name) in workers.iter().enumerate() {
        let canary = workers.first().filter(|_| at > 0);
        let earlier = at.checked_sub(window).map(|at| &workers[at]);
        wait(builder, name, &others, canary.into_iter().chain(earlier));
    }
    for (at, name) in planes.iter().enumerate() {
        let earlier = at.checked_sub(1).map(|at| &planes[at]);
        wait(builder, name, &others, workers.iter().chain(earlier));
    }
}

/// Makes the first step of a replacement depend on `steps`, and on the steps after which `nodes` are in the cluster.
fn wait<'n>(
    builder: &mut Builder<'_>,
    name: &str,
    steps: &[StepId],
    nodes: impl Iterator<Item = &'n String>,
) {
    let Some(first) = first_step(builder, name) else { return };
    for step in steps {
        builder.steps.put_behind(&first, step);
    }
    let returned: Vec<StepId> = nodes.filter_map(|node| returned(builder, node)).collect();
    for step in &returned {
        builder.steps.put_behind(&first, step);
    }
}

/// The first step of a replacement.
fn first_step(builder: &Builder<'_>, name: &str) -> Option<StepId> {
    [format!("node/{name}/drain"), leave_id(name), format!("vm/{name}/stop")]
        .map(StepId::new)
        .into_iter()
        .find(|id| builder.steps.has(id))
}

/// The step after which a node is in the cluster.
fn returned(builder: &Builder<'_>, name: &str) -> Option<StepId> {
    [format!("talos/{name}/join"), format!("ubuntu/{name}/up")]
        .map(StepId::new)
        .into_iter()
        .find(|id| builder.steps.has(id))
}

fn is_leader(builder: &Builder<'_>, name: &str) -> bool {
    match builder.observed.nodes.get(name) {
        Some(TalosSeen::OwnNode(found)) => found.is_leader,
        _ => false,
    }
}
