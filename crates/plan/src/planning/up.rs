//! The plan of `up`: create or update a cluster.

use super::builder::{Builder, PlanOptions};
use super::node_change::NodeChanges;
use super::placed::VmPresence;
use super::placement::places;
use super::scope::Scope;
use super::{
    addon, cluster, decision, foreign_vm, hidden_vm, left_out, marker_restore, missing_resource,
    preflight, removal, replacement, rollout, selection, shared_secrets, split_etcd, stale_node,
    talos, unreadable, vm,
};
use crate::desired::Desired;
use crate::observed::Observed;
use crate::plan::{Finding, Plan, StepGraph};

/// The plan from the observed state to the desired state, without limits and without consent to lose data.
pub fn plan(desired: &Desired, observed: &Observed, options: PlanOptions) -> Plan {
    plan_within(desired, observed, options, &Scope::default())
}

/// The plan from the observed state to the desired state, within the limits and the consent of `scope`.
pub fn plan_within(
    desired: &Desired,
    observed: &Observed,
    options: PlanOptions,
    scope: &Scope,
) -> Plan {
    let mut places = places(desired, &observed.pve);
    let mut findings = std::mem::take(&mut places.findings);
    findings.append(&mut places.troubles);
    findings.extend(shared_secrets::of_another(desired, &places));
    // A foreign VM with the vmid of a node is an error that is already among the findings.
    let absent = places.nodes.iter().filter(|placed| matches!(placed.state, VmPresence::Absent));
    let absent = absent.map(|placed| placed.node);
    findings.extend(foreign_vm::warnings(desired, &observed.pve, absent));
    let mut builder = Builder {
        desired,
        observed,
        options,
        scope,
        places,
        changes: vec![],
        node_changes: NodeChanges::new(),
        findings,
        steps: StepGraph::default(),
    };
    unreadable::block(&mut builder);
    hidden_vm::block(&mut builder);
    replacement::check(&mut builder);
    let nodes = builder.places.nodes.clone();
    for placed in &nodes {
        decision::placement(placed);
    }
    let vms = nodes
        .iter()
        .map(|placed| (placed.node.name.clone(), vm::plan(&mut builder, placed)))
        .collect();
    replacement::move_placements(&mut builder);
    talos::plan(&mut builder, &vms);
    replacement::order(&mut builder);
    let last = rollout::plan(&mut builder);
    removal::plan(&mut builder, &last);
    stale_node::plan(&mut builder);
    marker_restore::plan(&mut builder);
    cluster::check_after_changes(&mut builder);
    split_etcd::check(&mut builder);
    addon::left(&mut builder);
    addon::check(&mut builder);
    preflight::check(&mut builder);
    missing_resource::check(&mut builder);
    // These calls come last, because they remove steps and take changes out of the plan.
    left_out::apply(&mut builder);
    selection::apply(&mut builder);
    builder.changes.sort_by(|a, b| a.object.cmp(&b.object));
    Finding::sort(&mut builder.findings);
    let plan = Plan {
        cluster: desired.cluster.clone(),
        changes: builder.changes,
        findings: builder.findings,
        steps: builder.steps.in_order(),
    };
    decision::open_changes(&plan);
    plan
}
