//! The steps that change one node, from the drain to the uncordon.

use super::builder::Builder;
use super::etcd_voters::members;
use super::node_change::{ConfigChange, NodeChange, VmChange};
use super::placed::{Placed, VmPresence};
use super::vm_creation;
use crate::desired::ExpectedNetwork;
use crate::observed::{CordonedBy, KubernetesSeen, TalosSeen};
use crate::plan::{
    Action, AwaitMember, AwaitUbuntu, ChangeConfig, ChangeVm, ConfigMode, DrainNode, MigrateVm,
    ResizeDisk, ShutdownNode, StartVm, StepId, TalosNode, UncordonNode,
};

/// Plans the steps that change a node. Returns the last step. None if the change needs no step.
pub(super) fn plan(
    builder: &mut Builder<'_>,
    placed: &Placed<'_>,
    change: &NodeChange,
    after: &[StepId],
) -> Option<StepId> {
    let mut before = after.to_vec();
    // The step that detaches the cidata volume also changes the config of the VM, so it must run first.
    let detach = StepId::new(format!("vm/{}/detach-config", placed.node.name));
    before.extend(Some(detach).filter(|detach| builder.steps.has(detach)));
    let none = VmChange::default();
    let vm = change.vm.as_ref().unwrap_or(&none);
    // A node that has not joined does not report the end of a reboot, so its VM is stopped and started instead.
    let reboots = change.config.as_ref().is_some_and(|it| it.mode == ConfigMode::Reboot);
    if vm.needs_stop || change.renews_volume || (reboots && is_stuck(builder, placed)) {
        return Some(with_stop(builder, placed, vm, change, before));
    }
    let is_changed = vm.has_options() || !vm.grow.is_empty() || vm.migrate.is_some();
    let before = change_vm(builder, placed, vm, before);
    if let Some(config) = &change.config {
        return Some(with_config(builder, placed, config, before));
    }
    let last = before.into_iter().next_back().filter(|_| is_changed)?;
    // The next node is changed only if this one can still be reached.
    Some(if change.is_rolled_out() { back(builder, placed, last, false) } else { last })
}

/// Plans the steps that change a VM: all changes of a stopped VM, or the options that a running VM accepts. Returns the steps
/// that the next step depends on.
pub(super) fn change_vm(
    builder: &mut Builder<'_>,
    placed: &Placed<'_>,
    change: &VmChange,
    after: Vec<StepId>,
) -> Vec<StepId> {
    let timeouts = builder.desired.timeouts;
    let name = &placed.node.name;
    let own = || placed.own.clone();
    let mut after = after;
    if let Some(migration) = &change.migrate {
        let action = Action::MigrateVm(MigrateVm {
            own: own(),
            target: migration.target.clone(),
            is_online: migration.is_online && !change.needs_stop,
            // Local disks are copied, so the deadline is long.
            deadline: timeouts.image,
        });
        let id = format!("vm/{name}/migrate");
        after = vec![builder.steps.add(id, Some(name), after, action)];
    }
    if change.has_options() {
        after.extend(change.after.iter().cloned());
        let action = Action::ChangeVm(ChangeVm {
            own: own(),
            set: change.set.clone(),
            delete: change.delete.clone(),
            pool: change.pool.clone(),
            deadline: timeouts.task,
        });
        let id = format!("vm/{name}/change");
        after = vec![builder.steps.add(id, Some(name), after, action)];
    }
    for (slot, gib) in &change.grow {
        let (slot, gib, deadline) = (slot.clone(), *gib, timeouts.task);
        let id = format!("vm/{name}/grow-{slot}");
        let action = Action::ResizeDisk(ResizeDisk { own: own(), slot, gib, deadline });
        after = vec![builder.steps.add(id, Some(name), after, action)];
    }
    after
}

/// Plans the steps of a node whose VM is stopped and started. A changed config takes effect with the same stop.
fn with_stop(
    builder: &mut Builder<'_>,
    placed: &Placed<'_>,
    vm: &VmChange,
    change: &NodeChange,
    after: Vec<StepId>,
) -> StepId {
    let timeouts = builder.desired.timeouts;
    let name = &placed.node.name;
    let mut talos = placed.talos_node();
    let drained = drain(builder, placed, &after);
    let mut after = drained.clone().map_or(after, |drained| vec![drained]);
    if let Some(change) = &change.config {
        // A change of the network is tried while the node can still revert it. Any other change takes effect with the boot.
        let mode = match change.mode {
            ConfigMode::Try => ConfigMode::Try,
            ConfigMode::Live | ConfigMode::Reboot | ConfigMode::Staged => ConfigMode::Staged,
        };
        if mode == ConfigMode::Staged {
            talos.contact = change.now;
        }
        after = vec![change_config(builder, placed, change, mode, after)];
    }
    let shutdown = Action::ShutdownNode(ShutdownNode {
        own: placed.own.clone(),
        talos: placed.node.is_talos.then_some(talos),
        control_planes: members_beside(builder, placed),
        deadline: timeouts.task + timeouts.health,
    });
    // The volume is attached before the VM stops. A run that is interrupted later leaves a VM that starts with the volume.
    let attached =
        change.renews_volume.then(|| vm_creation::renew(builder, placed, &after)).flatten();
    after.extend(attached.clone());
    let id = format!("vm/{name}/shutdown");
    let stopped = builder.steps.add(id, Some(name), after, shutdown);
    let changed = change_vm(builder, placed, vm, vec![stopped]);
    let start = Action::StartVm(StartVm { own: placed.own.clone(), deadline: timeouts.task });
    let started = builder.steps.add(format!("vm/{name}/start"), Some(name), changed, start);
    let end = back(builder, placed, started, drained.is_some());
    if let Some(attached) = attached {
        // Another step waits for a node that has not joined.
        let join = StepId::new(format!("talos/{name}/join"));
        let read = if builder.steps.has(&join) { join } else { end.clone() };
        vm_creation::remove_renewed(builder, placed, attached, read);
    }
    end
}

/// Plans the steps of a node whose config changes while its VM runs.
fn with_config(
    builder: &mut Builder<'_>,
    placed: &Placed<'_>,
    change: &ConfigChange,
    after: Vec<StepId>,
) -> StepId {
    if change.mode != ConfigMode::Reboot {
        let changed = change_config(builder, placed, change, change.mode, after);
        return back(builder, placed, changed, false);
    }
    let drained = drain(builder, placed, &after);
    let after = drained.clone().map_or(after, |drained| vec![drained]);
    let changed = change_config(builder, placed, change, ConfigMode::Reboot, after);
    back(builder, placed, changed, drained.is_some())
}

fn change_config(
    builder: &mut Builder<'_>,
    placed: &Placed<'_>,
    change: &ConfigChange,
    mode: ConfigMode,
    after: Vec<StepId>,
) -> StepId {
    let timeouts = builder.desired.timeouts;
    let reboots = mode == ConfigMode::Reboot;
    let control_planes = if reboots { members_beside(builder, placed) } else { vec![] };
    let deadline = if reboots { timeouts.boot + timeouts.health } else { timeouts.boot };
    let action = Action::ChangeConfig(ChangeConfig {
        node: TalosNode { contact: change.now, ..placed.talos_node() },
        contact: placed.node.contact,
        config: change.config.clone().into(),
        mode,
        control_planes,
        shape: shape(builder, placed),
        deadline,
    });
    let name = &placed.node.name;
    builder.steps.add(format!("talos/{name}/config"), Some(name), after, action)
}

/// Whether a node answers and has not joined the cluster.
pub(super) fn is_stuck(builder: &Builder<'_>, placed: &Placed<'_>) -> bool {
    let node = placed.node;
    let seen = builder.observed.nodes.get(&node.name);
    let Some(TalosSeen::OwnNode(found)) = seen else { return false };
    node.is_talos && !found.has_joined(node.is_control_plane)
}

/// Whether a control plane answers and is not a healthy member of etcd.
pub(super) fn lacks_etcd(builder: &Builder<'_>, placed: &Placed<'_>) -> bool {
    match builder.observed.nodes.get(&placed.node.name) {
        Some(TalosSeen::OwnNode(found)) => !found.is_member(placed.node.is_control_plane),
        _ => false,
    }
}

/// Whether a node is a control plane, or was one and is still a member of etcd.
pub(super) fn has_etcd(builder: &Builder<'_>, placed: &Placed<'_>) -> bool {
    let node = placed.node;
    node.is_talos && (node.is_control_plane || members(builder).contains(node.name.as_str()))
}

/// All control planes, if this node is a control plane. Empty otherwise. Before the node goes down, a step checks that etcd
/// keeps its quorum without the node. A control plane without a healthy etcd does not count for the quorum.
pub(super) fn members_beside(builder: &Builder<'_>, placed: &Placed<'_>) -> Vec<TalosNode> {
    if !has_etcd(builder, placed) || lacks_etcd(builder, placed) {
        return vec![];
    }
    // A control plane that this run creates has joined before a change starts.
    let is_there = |placed: &&Placed<'_>| {
        let join = StepId::new(format!("talos/{}/join", placed.node.name));
        matches!(placed.state, VmPresence::Owned(_)) || builder.steps.has(&join)
    };
    let all = builder.places.nodes.iter().filter(is_there);
    all.filter(|placed| has_etcd(builder, placed)).map(Placed::talos_node).collect()
}

/// Plans the step that drains a node. None if Kubernetes does not list the node.
fn drain(builder: &mut Builder<'_>, placed: &Placed<'_>, after: &[StepId]) -> Option<StepId> {
    let name = &placed.node.name;
    // The Kubernetes API may need the change of this node before it answers.
    let is_answering = matches!(builder.observed.kubernetes, KubernetesSeen::Answers(_));
    let may_wait = is_answering || !is_stuck(builder, placed);
    if !placed.node.is_talos || !may_be_registered(builder, name) || !may_wait {
        return None;
    }
    let action = Action::DrainNode(DrainNode {
        node: name.clone(),
        evicts: can_move_pods(builder, placed),
        deadline: builder.desired.timeouts.health,
    });
    Some(builder.steps.add(format!("node/{name}/drain"), Some(name), after.to_vec(), action))
}

/// Plans the step that waits until a node runs again, and the step that uncordons the node if it was drained.
fn back(builder: &mut Builder<'_>, placed: &Placed<'_>, after: StepId, is_drained: bool) -> StepId {
    let node = placed.node;
    let (name, timeouts) = (&node.name, builder.desired.timeouts);
    if !is_drained && is_stuck(builder, placed) {
        // Another step of the plan waits until the node has joined.
        return after;
    }
    if !node.is_talos {
        let action = Action::AwaitUbuntu(AwaitUbuntu {
            own: placed.own.clone(),
            contact: node.contact,
            has_agent: node.vm.has_agent,
            deadline: timeouts.bootstrap,
        });
        return builder.steps.add(format!("ubuntu/{name}/return"), Some(name), [after], action);
    }
    let shape = Some(shape(builder, placed));
    let deadline = timeouts.boot + timeouts.bootstrap;
    let action = Action::AwaitMember(AwaitMember {
        node: placed.talos_node(),
        shape,
        awaits_ready: false,
        deadline,
    });
    let joined = builder.steps.add(format!("talos/{name}/return"), Some(name), [after], action);
    if is_drained { uncordon(builder, placed, vec![joined]) } else { joined }
}

/// Plans the step that uncordons a node that talmox cordoned.
pub(super) fn uncordon(
    builder: &mut Builder<'_>,
    placed: &Placed<'_>,
    after: Vec<StepId>,
) -> StepId {
    let name = &placed.node.name;
    let awaits_ready = match &builder.observed.kubernetes {
        KubernetesSeen::Answers(registered) => !registered.lacks_pod_network,
        KubernetesSeen::NotAsked | KubernetesSeen::Silent(_) => builder.desired.has_cni,
    };
    let action = Action::UncordonNode(UncordonNode {
        node: name.clone(),
        awaits_ready,
        is_asked: false,
        deadline: builder.desired.timeouts.health,
    });
    builder.steps.add(format!("node/{name}/uncordon"), Some(name), after, action)
}

/// Whether Kubernetes lists the node, or an earlier step of the plan registers it. True if Kubernetes does not answer.
fn may_be_registered(builder: &Builder<'_>, name: &str) -> bool {
    match &builder.observed.kubernetes {
        KubernetesSeen::Answers(registered) => {
            let register = StepId::new(format!("node/{name}/register"));
            registered.nodes.contains(name) || builder.steps.has(&register)
        }
        KubernetesSeen::NotAsked | KubernetesSeen::Silent(_) => true,
    }
}

/// Whether another node can run the pods of this node. Pods of a control plane tolerate the taint of control planes.
fn can_move_pods(builder: &Builder<'_>, placed: &Placed<'_>) -> bool {
    let is_closed = |name: &str| match &builder.observed.kubernetes {
        KubernetesSeen::Answers(registered) => {
            registered.cordoned.get(name) == Some(&CordonedBy::Other)
        }
        KubernetesSeen::NotAsked | KubernetesSeen::Silent(_) => false,
    };
    let mut others = builder.places.nodes.iter().filter(|other| {
        let name = &other.node.name;
        let is_there = matches!(other.state, VmPresence::Owned(_));
        let is_node = other.node.is_talos && is_there && may_be_registered(builder, name);
        is_node && *name != placed.node.name && !is_closed(name)
    });
    let is_control_plane = placed.node.is_control_plane;
    others.any(|other| is_control_plane || !other.node.is_control_plane || takes_pods(other))
}

/// Whether the config of a control plane allows all pods on it.
fn takes_pods(placed: &Placed<'_>) -> bool {
    let config = placed.node.config.expose();
    config.lines().any(|line| line.trim() == "allowSchedulingOnControlPlanes: true")
}

/// The network that the config of a node describes.
pub(super) fn shape(builder: &Builder<'_>, placed: &Placed<'_>) -> ExpectedNetwork {
    ExpectedNetwork::of(
        &placed.node.config,
        builder.desired.talos_version.as_deref().unwrap_or_default(),
    )
}
