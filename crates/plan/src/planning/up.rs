//! The plan of `up`: create or update a cluster.

use super::builder::{Builder, PlanOptions};
use super::placed::VmPresence;
use super::placement::places;
use super::{
    addon, first_role, foreign_vm, missing_resource, orphan, preflight, shared_secrets, split_etcd,
    talos, unreadable, vm,
};
use crate::desired::Desired;
use crate::observed::Observed;
use crate::plan::{Finding, Plan, StepGraph};

/// The plan from the observed to the desired state.
pub fn plan(desired: &Desired, observed: &Observed, options: PlanOptions) -> Plan {
    let mut places = places(desired, &observed.pve);
    let mut findings = std::mem::take(&mut places.findings);
    findings.append(&mut places.troubles);
    findings.extend(shared_secrets::of_another(desired, &places));
    // A foreign VM at the vmid of a node is an error, and already among the findings.
    let absent = places.nodes.iter().filter(|placed| matches!(placed.state, VmPresence::Absent));
    let absent = absent.map(|placed| placed.node);
    findings.extend(foreign_vm::warnings(desired, &observed.pve, absent));
    let mut builder = Builder {
        desired,
        observed,
        options,
        places,
        changes: vec![],
        findings,
        steps: StepGraph::default(),
    };
    unreadable::block(&mut builder);
    first_role::check(&mut builder);
    let nodes = builder.places.nodes.clone();
    let vms = nodes
        .iter()
        .map(|placed| (placed.node.name.clone(), vm::plan(&mut builder, placed)))
        .collect();
    talos::plan(&mut builder, &vms);
    split_etcd::check(&mut builder);
    orphan::plan(&mut builder);
    addon::left(&mut builder);
    addon::check(&mut builder);
    preflight::check(&mut builder);
    missing_resource::check(&mut builder);
    builder.changes.sort_by(|a, b| a.object.cmp(&b.object));
    Finding::sort(&mut builder.findings);
    Plan {
        cluster: desired.cluster.clone(),
        changes: builder.changes,
        findings: builder.findings,
        steps: builder.steps.in_order(),
    }
}
