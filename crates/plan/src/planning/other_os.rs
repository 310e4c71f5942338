//! Planning of nodes with an operating system other than Talos: a step waits until such a node answers.

use super::builder::Builder;
use super::placed::Placed;
use super::preflight;
use super::replacement;
use super::vm_plan::VmPlan;
use crate::plan::{Action, AwaitUbuntu, Change, Class, FieldChange, Object};

pub(super) fn plan(builder: &mut Builder<'_>, placed: &Placed<'_>, vm: &VmPlan) {
    let node = placed.node;
    if vm.runs_after.is_none() {
        // An earlier run may have ended before the node answered.
        if !builder.observed.silent.contains_key(&node.name) {
            return;
        }
        let (old, new) = (Some("does not answer".to_owned()), Some("up".to_owned()));
        let fields = vec![FieldChange::new("system", old, new)];
        let object = Object::Node(node.name.clone());
        builder.changes.push(Change::planned(object, Class::Live, fields));
    }
    if vm.is_fresh && !replacement::may_answer(builder, &node.name) {
        builder.findings.extend(preflight::address_in_use(builder, node));
    }
    let action = Action::AwaitUbuntu(AwaitUbuntu {
        own: placed.own.clone(),
        contact: node.contact,
        has_agent: node.vm.has_agent,
        deadline: builder.desired.timeouts.bootstrap,
    });
    let (id, start) = (format!("ubuntu/{}/up", node.name), vm.runs_after.clone());
    builder.steps.add(id, Some(&node.name), start, action);
}
