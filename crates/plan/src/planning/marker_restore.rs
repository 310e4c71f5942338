//! Restores the marker of VMs that lost it.
//!
//! A VM without its marker is not an owned VM, so no other step changes it. If its UUID, its name and its tags prove that it is the
//! VM of its node, a step restores the marker, and the next run compares the VM with the inventory again.

use super::builder::Builder;
use super::left_out;
use super::placed::UnmarkedVm;
use super::scope::Part;
use crate::plan::{
    Action, Change, Class, FieldChange, Finding, FindingCode, Left, Object, RestoreMarker,
};

/// Adds the changes of VMs that lost their marker, and the steps that restore it. While etcd is not known to run, nothing is restored,
/// because the VM may be a control plane with etcd data, and its error must prevent a bootstrap.
pub(super) fn plan(builder: &mut Builder<'_>) {
    let is_etcd_there = left_out::is_possible(builder);
    for UnmarkedVm { own, is_proven } in builder.places.unmarked.clone() {
        let name = own.identity.node.clone();
        let (old, new) = (Some("no marker".to_owned()), Some("marker".to_owned()));
        let fields = vec![FieldChange::new("notes", old, new)];
        let object = Object::Vm(name.clone());
        let left = if !is_proven || !is_etcd_there {
            Some(Left::Blocked)
        } else if !builder.scope.allows(&name, Part::Vms) {
            Some(Left::NotSelected)
        } else {
            None
        };
        if let Some(left) = left {
            builder.changes.push(Change::left(object, Class::Live, fields, left));
            continue;
        }
        let is_error =
            |finding: &Finding| finding.code == FindingCode::VmUnproven && finding.subject == name;
        builder.findings.retain(|finding| !is_error(finding));
        let message = format!(
            "VM {} has its UUID, its name and its tags, but the notes of the VM lost talmox's marker",
            own.vm.vmid
        );
        let hint = "`talmox up` restores the marker, and keeps the notes; run it again afterwards to compare the VM with the inventory";
        builder.findings.push(Finding::warning(FindingCode::VmUnproven, &name, message).hint(hint));
        builder.changes.push(Change::planned(object, Class::Live, fields));
        let action = Action::RestoreMarker(RestoreMarker {
            own,
            cluster: builder.desired.cluster.clone(),
            deadline: builder.desired.timeouts.task,
        });
        builder.steps.add(format!("vm/{name}/restore-marker"), Some(&name), [], action);
    }
}
