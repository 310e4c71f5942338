//! Plan that creates the templates from which nodes are cloned.

use talmox_pve_types::api::qemu::Vm;
use talmox_pve_types::id::VmId;

use super::builder::{Builder, PlanOptions};
use super::clone_source::template_findings;
use super::missing_template::{MissingTemplate, missing_templates};
use super::node_change::NodeChanges;
use super::placement::places;
use super::scope::Scope;
use super::{clone_source, image, preflight};
use crate::desired::Desired;
use crate::observed::Observed;
use crate::plan::{
    Action, Change, Class, FieldChange, Finding, FindingCode, MakeTemplate, Object, Plan, StepGraph,
};

/// The plan that creates the missing templates. `numbers` contains free vmids, one for each template without a vmid.
pub fn templates(desired: &Desired, observed: &Observed, numbers: &[VmId]) -> Plan {
    let mut builder = Builder {
        desired,
        observed,
        scope: &Scope::default(),
        node_changes: NodeChanges::new(),
        options: PlanOptions { has_client_files: true, was_up: true, was_bootstrapped: false },
        places: places(desired, &observed.pve),
        changes: vec![],
        findings: vec![],
        steps: StepGraph::default(),
    };
    let mut numbers = numbers.iter().copied();
    for template in missing_templates(desired, &observed.pve) {
        let Some(vmid) = template.vmid.or_else(|| numbers.next()) else {
            let message = "no vmid is free for it";
            let finding = Finding::error(FindingCode::VmidNoneFree, &template.name, message)
                .hint("pass one with --vmid");
            builder.findings.push(finding);
            continue;
        };
        make(&mut builder, &template, vmid);
    }
    builder.findings.extend(template_findings(desired, &observed.pve));
    preflight::check_templates(&mut builder);
    Plan {
        cluster: desired.cluster.clone(),
        changes: builder.changes,
        findings: builder.findings,
        steps: builder.steps.in_order(),
    }
}

fn make(builder: &mut Builder<'_>, template: &MissingTemplate<'_>, vmid: VmId) {
    let MissingTemplate { name, host, node, .. } = template;
    let Some(image) = &node.template_image else { return };
    if let Some(other) = template.other {
        let message = format!("{} and {} need it with different images", node.name, other.name);
        let hint = "give the nodes the same `image:`, or templates of different names";
        builder
            .findings
            .push(Finding::error(FindingCode::TemplateConflict, name, message).hint(hint));
        return;
    }
    let (volume, fetched) = image::fetch(builder, image, host);
    let Some(mark) = clone_source::mark(builder.desired, node) else { return };
    let options = node.vm.template(name, &volume, &mark.description());
    let fields = vec![
        FieldChange::set_value("vmid", vmid),
        FieldChange::set("host", host),
        FieldChange::set("template", name),
    ];
    builder.changes.push(Change::planned(Object::Vm(name.clone()), Class::Create, fields));
    let make = MakeTemplate {
        vm: Vm::new(host, vmid),
        name: name.clone(),
        pool: node.pool.clone(),
        options,
        deadline: builder.desired.timeouts.image,
    };
    let id = format!("template/{host}/{name}");
    builder.steps.add(id, None, [fetched], Action::MakeTemplate(make));
}
