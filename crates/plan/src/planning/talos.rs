//! Planning of Talos nodes: configs, joins, and the bootstrap of etcd.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use talmox_values::HttpUrl;

use super::builder::Builder;
use super::placed::{Placed, VmPresence};
use super::vm_plan::VmPlan;
use super::{
    cluster, first_role, lost_control_planes, maintenance_mode, node_chain, node_drift, other_os,
    pod_network, preflight, replacement, stale_member, unmarked_vm, unreadable, vm_creation,
};
use crate::observed::{EtcdSeen, TalosSeen};
use crate::ownership::Stage;
use crate::plan::{
    Action, ApplyConfig, AwaitMember, BootstrapEtcd, Change, Class, ClusterSigns, ConfigBy,
    Evidence, FieldChange, Finding, FindingCode, NodeSign, Object, StepId, Witness,
};

/// Maximum number of resets of a VM that does not answer.
const RESETS: u32 = 2;

/// Name of the step that bootstraps etcd on the first control plane.
pub(super) const BOOTSTRAP: &str = "etcd/bootstrap";

/// Result of planning a node.
#[derive(Clone, Debug, Default)]
struct NodePlan {
    apply: Option<StepId>,
    /// Whether the node has joined the cluster.
    has_joined: bool,
}

pub(super) fn plan(builder: &mut Builder<'_>, vms: &BTreeMap<String, VmPlan>) {
    let places = builder.places.nodes.clone();
    let is_sound = |placed: &&Placed<'_>| vms.get(&placed.node.name).is_some_and(|vm| vm.is_sound);
    let (nodes, others): (Vec<&Placed<'_>>, Vec<_>) =
        places.iter().filter(is_sound).partition(|placed| placed.node.is_talos);
    for placed in others {
        other_os::plan(builder, placed, &vms[&placed.node.name]);
    }
    if nodes.is_empty() {
        return;
    }
    let mut plans = BTreeMap::new();
    let (late, early): (Vec<&Placed<'_>>, Vec<_>) = nodes
        .iter()
        .copied()
        .partition(|placed| needs_cluster(builder, placed, &vms[&placed.node.name]));
    for placed in early {
        let name = &placed.node.name;
        plans.insert(name.clone(), node(builder, placed, &vms[name], None));
    }
    let bootstrap = bootstrap(builder, &nodes, &plans, vms);
    for placed in late {
        let name = &placed.node.name;
        plans.insert(name.clone(), node(builder, placed, &vms[name], bootstrap.as_ref()));
    }
    let mut joined = vec![];
    for placed in &nodes {
        let plan = &plans[&placed.node.name];
        if plan.has_joined {
            tracing::info!(target: "talmox::plan", subject = placed.node.name, "skipped: the node has joined");
            continue;
        }
        // The health check of a new cluster waits until its nodes are ready. Other nodes are replaced or removed after this
        // step, so the pods of these nodes must be able to run on this one.
        let awaits_ready = bootstrap.is_none() && pod_network::exists(builder);
        let timeouts = builder.desired.timeouts;
        let health = if awaits_ready { timeouts.health } else { Duration::ZERO };
        let deadline = timeouts.bootstrap + health;
        let is_looked_at = plan.apply.is_some();
        let shape = (!is_looked_at).then(|| node_chain::shape(builder, placed));
        let action = Action::AwaitMember(AwaitMember {
            node: placed.talos_node(),
            shape,
            awaits_ready,
            deadline,
        });
        let after = plan.apply.iter().chain(&bootstrap).cloned();
        let name = &placed.node.name;
        joined.push(builder.steps.add(format!("talos/{name}/join"), Some(name), after, action));
    }
    maintenance_mode::warn(builder, &nodes, vms);
    cluster::plan(builder, &nodes, bootstrap.as_ref(), &joined);
}

/// Whether a machine may already have its config and may answer only after the bootstrap. This applies to workers, because a
/// worker gets its certificate from a control plane.
fn needs_cluster(builder: &Builder<'_>, placed: &Placed<'_>, vm: &VmPlan) -> bool {
    let seen = builder.observed.nodes.get(&placed.node.name);
    let is_empty = vm.is_fresh || matches!(seen, Some(TalosSeen::Maintenance { .. }));
    !placed.node.is_control_plane && !is_empty
}

/// Plans a node. `cluster` is the bootstrap step if the node cannot answer before the bootstrap.
fn node(
    builder: &mut Builder<'_>,
    placed: &Placed<'_>,
    vm: &VmPlan,
    cluster: Option<&StepId>,
) -> NodePlan {
    let node = placed.node;
    let seen = builder.observed.nodes.get(&node.name).cloned().unwrap_or_default();
    // If the node is replaced, its old VM may still answer.
    if vm.is_fresh
        && !replacement::may_answer(builder, &node.name)
        && let Some(finding) = preflight::address_in_use(builder, node)
    {
        builder.findings.push(finding);
        return NodePlan::default();
    }
    match &seen {
        TalosSeen::OwnNode(found) if vm.runs_after.is_none() => {
            match &placed.state {
                VmPresence::Owned(vm) => {
                    node_drift::node(builder, &node.as_created(vm.config), found);
                }
                _ => node_drift::node(builder, node, found),
            }
            vm_creation::detach(builder, placed, None);
            let has_joined = found.has_joined(node.is_control_plane);
            if !has_joined {
                let is_member = found.is_member(node.is_control_plane);
                let (path, old, new) = if is_member {
                    ("kubelet", "starting", "healthy")
                } else {
                    ("cluster", "waiting", "member")
                };
                let fields = vec![FieldChange::new(path, Some(old.into()), Some(new.into()))];
                let object = Object::Node(node.name.clone());
                builder.changes.push(Change::planned(object, Class::Live, fields));
            }
            return NodePlan { apply: None, has_joined };
        }
        TalosSeen::Maintenance { .. }
            if vm.runs_after.is_none() && maintenance_mode::lacks_volume(placed) =>
        {
            builder.findings.push(maintenance_mode::no_volume(placed));
            return NodePlan::default();
        }
        TalosSeen::Maintenance { mismatch: Some(mismatch) } if vm.runs_after.is_none() => {
            let message = format!("another machine answers at its address: {mismatch}");
            let hint = "find the machine that has the address; nothing is sent to it";
            builder.findings.push(
                Finding::error(FindingCode::AddressOtherMachine, &node.name, message).hint(hint),
            );
            return NodePlan::default();
        }
        TalosSeen::OtherMachine(who) | TalosSeen::NoAccess(who) => {
            let message = format!("at its address is {who}");
            let hint = "compare the secrets, the clocks and the addresses; nothing is sent to it";
            builder.findings.push(
                Finding::error(FindingCode::AddressOtherMachine, &node.name, message).hint(hint),
            );
            return NodePlan::default();
        }
        TalosSeen::NotTalos(who) if vm.runs_after.is_none() => {
            let message = format!("at its address is {who}, not a Talos node");
            let hint = "turn off the other machine, or give the node another `ip:`; `up` waits \
                        for its VM";
            builder.findings.push(
                Finding::warning(FindingCode::AddressOtherMachine, &node.name, message).hint(hint),
            );
        }
        TalosSeen::Mute(what) if vm.runs_after.is_none() => {
            let message = format!("at its address is {what}");
            let hint = "wait: it may be booting, and `up` waits for it; if it stays so, open the \
                        console of its VM";
            builder
                .findings
                .push(Finding::warning(FindingCode::NodeSilent, &node.name, message).hint(hint));
        }
        _ => {}
    }
    let apply = apply(builder, placed, vm, &seen, cluster);
    vm_creation::detach(builder, placed, Some(apply.clone()));
    NodePlan { apply: Some(apply), has_joined: false }
}

fn apply(
    builder: &mut Builder<'_>,
    placed: &Placed<'_>,
    vm: &VmPlan,
    seen: &TalosSeen,
    cluster: Option<&StepId>,
) -> StepId {
    let node = placed.node;
    let timeouts = builder.desired.timeouts;
    let by = if node.vm.cidata.is_some() { ConfigBy::Volume } else { ConfigBy::Maintenance };
    let is_new = vm.is_fresh || !builder.was_there(&node.name);
    // Only a VM that this run creates is reset. Another VM may be healthy while only the network path to it is closed. A node
    // that reads its config from a cidata volume can join an existing cluster without talmox. So such a node is not reset if
    // the cluster has older VMs.
    let joins_alone = by == ConfigBy::Volume && has_older_vm(builder);
    let resets = if vm.is_created && !joins_alone { RESETS } else { 0 };
    let action = ApplyConfig {
        node: placed.talos_node(),
        by,
        has_drive: node.vm.has_cloudinit,
        config: node.config.clone().into(),
        talos_version: builder.desired.talos_version.clone().unwrap_or_default(),
        template: node.template.clone().filter(|_| is_new),
        shape: node_chain::shape(builder, placed),
        is_started: vm.runs_after.is_some(),
        resets,
        boot: timeouts.boot,
        needs: if node.is_control_plane { vec![] } else { vec![StepId::new(BOOTSTRAP)] },
        deadline: timeouts.boot * (resets + 1) + timeouts.bootstrap,
    };
    builder.changes.extend(come_up(builder, placed, vm, seen));
    let id = format!("talos/{}/apply", node.name);
    let after = vm.runs_after.iter().chain(cluster).cloned();
    builder.steps.add(id, Some(&node.name), after, Action::ApplyConfig(action))
}

/// Whether a VM of this cluster was finished before this run, so that etcd may already run.
fn has_older_vm(builder: &Builder<'_>) -> bool {
    let is_older = |placed: &Placed<'_>| match &placed.state {
        VmPresence::Owned(found) => found.marker.stage == Stage::Made,
        VmPresence::Blocked => true,
        VmPresence::Absent | VmPresence::BeingMade(_) => false,
    };
    builder.places.nodes.iter().any(is_older) || !builder.places.removed.is_empty()
}

/// The change of a node that gets its config, or that this run waits for. None if the start of its VM is already shown as a
/// change.
fn come_up(
    builder: &Builder<'_>,
    placed: &Placed<'_>,
    vm: &VmPlan,
    seen: &TalosSeen,
) -> Option<Change> {
    let node = placed.node;
    let object = Object::Node(node.name.clone());
    let is_empty = vm.is_fresh || matches!(seen, TalosSeen::Maintenance { .. });
    // A VM that was finished before this run may be a healthy node that this machine cannot reach, even if there are no
    // client files. The run waits for such a node and creates nothing.
    if !is_empty {
        let (old, new) = (Some("does not answer".to_owned()), Some("runs".to_owned()));
        let fields = vec![FieldChange::new("talos", old, new)];
        // The start of the VM is a separate change.
        let is_told = vm.runs_after.is_some();
        return (!is_told).then(|| Change::planned(object, Class::Live, fields));
    }
    let version = builder.desired.talos_version.clone().unwrap_or_default();
    let role = if node.is_control_plane { "controlplane" } else { "worker" };
    let mut fields = vec![FieldChange::set("role", role), FieldChange::set("talos", version)];
    fields.extend(node.addresses.first().map(|address| FieldChange::set("address", address)));
    Some(Change::planned(object, Class::Create, fields))
}

/// Plans the bootstrap of etcd. It happens once for a cluster, on the first control plane, and only if no other control plane
/// can have etcd data.
fn bootstrap(
    builder: &mut Builder<'_>,
    nodes: &[&Placed<'_>],
    plans: &BTreeMap<String, NodePlan>,
    vms: &BTreeMap<String, VmPlan>,
) -> Option<StepId> {
    let has_etcd = has_etcd(builder);
    let control_planes: Vec<&&Placed<'_>> =
        nodes.iter().filter(|placed| placed.node.is_control_plane).collect();
    if has_etcd {
        stale_member::plan(builder, &control_planes, vms);
        builder.findings.extend(lost_control_planes::majority(builder, vms));
        tracing::info!(target: "talmox::plan", subject = BOOTSTRAP, "skipped: etcd has data already");
        return None;
    }
    let is_whole = builder.desired.control_planes().count() == control_planes.len();
    let (first, others) = control_planes.split_first()?;
    if !is_whole || first.node.name != builder.desired.control_planes().next()?.name {
        // A control plane that is not planned may have the etcd data.
        tracing::info!(target: "talmox::plan", subject = BOOTSTRAP, "skipped: a control plane is blocked");
        return None;
    }
    if let Some(finding) = unreadable::keeps_from_bootstrap(builder) {
        builder.findings.push(finding);
        return None;
    }
    let former = first_role::keep_from_bootstrap(builder);
    if !former.is_empty() {
        builder.findings.extend(former);
        return None;
    }
    let unmarked = unmarked_vm::keep_from_bootstrap(builder);
    if !unmarked.is_empty() {
        builder.findings.extend(unmarked);
        return None;
    }
    builder.findings.extend(lost_control_planes::finding(builder, nodes, vms));
    let mut after: Vec<StepId> = plans[&first.node.name].apply.iter().cloned().collect();
    // The first control plane is created only after the older control planes have reported whether they have etcd data.
    let older = others.iter().filter(|placed| !vms[&placed.node.name].is_fresh);
    for config_step in older.filter_map(|placed| plans[&placed.node.name].apply.as_ref()) {
        for making in ["create", "clone"] {
            let making = StepId::new(format!("vm/{}/{making}", first.node.name));
            builder.steps.put_behind(&making, config_step);
        }
    }
    let witnesses = others.iter().map(|placed| {
        let name = &placed.node.name;
        let is_fresh = vms[name].is_fresh;
        if !is_fresh {
            after.extend(plans[name].apply.clone());
        }
        let evidence = if is_fresh { Evidence::FreshDisk } else { Evidence::Answer };
        Witness { node: placed.talos_node(), evidence }
    });
    let action = BootstrapEtcd {
        node: first.talos_node(),
        witnesses: witnesses.collect(),
        signs: signs(builder),
        deadline: builder.desired.timeouts.bootstrap,
    };
    let name = &first.node.name;
    let is_fresh = control_planes.iter().any(|placed| vms[&placed.node.name].is_fresh);
    if is_fresh || !builder.was_there(name) {
        let is_new = control_planes.iter().all(|placed| vms[&placed.node.name].is_fresh);
        let unless = if is_new { "" } else { ", unless a control plane has etcd data" };
        let fields = vec![FieldChange::set("etcd", format!("bootstrapped on {name}{unless}"))];
        let object = Object::Cluster(builder.desired.cluster.clone());
        builder.changes.push(Change::planned(object, Class::Create, fields));
    }
    Some(builder.steps.add(BOOTSTRAP, Some(name), after, Action::BootstrapEtcd(action)))
}

/// The properties by which the bootstrap step recognises VMs and addresses of the cluster.
fn signs(builder: &Builder<'_>) -> ClusterSigns {
    let desired = builder.desired;
    let nodes = builder.places.nodes.iter().map(|placed| NodeSign {
        name: placed.node.name.clone(),
        uuid: placed.node.identity.uuid.to_string(),
        vmid: placed.own.vm.vmid,
        has_etcd: placed.node.is_talos && placed.node.is_control_plane,
    });
    let endpoint = desired.endpoint.as_deref().and_then(|url| HttpUrl::parse(url).ok()?.ip());
    let addresses: BTreeSet<IpAddr> = desired.vip.into_iter().chain(endpoint).collect();
    ClusterSigns {
        cluster: desired.cluster.clone(),
        mark: desired.mark.clone(),
        nodes: nodes.collect(),
        addresses: addresses.into_iter().collect(),
    }
}

/// Whether a node reports that etcd was bootstrapped. Adds a warning for each node whose etcd is not healthy.
fn has_etcd(builder: &mut Builder<'_>) -> bool {
    let mut has_etcd = false;
    for (name, seen) in &builder.observed.nodes {
        let TalosSeen::OwnNode(found) = seen else { continue };
        match &found.etcd {
            EtcdSeen::Member { .. } => return true,
            EtcdSeen::Unhealthy { reason, .. } => {
                has_etcd = true;
                let message = format!("its etcd is not healthy: {reason}");
                let hint = "run `talmox node services NODE` for the reason; nothing is bootstrapped while any node has etcd data";
                builder
                    .findings
                    .push(Finding::warning(FindingCode::EtcdUnhealthy, name, message).hint(hint));
            }
            EtcdSeen::Unknown | EtcdSeen::Waiting => {}
        }
    }
    has_etcd
}
