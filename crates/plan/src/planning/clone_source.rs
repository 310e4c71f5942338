//! The template from which a VM is cloned, and the options of the template that a clone must not keep.

use talmox_pve_types::api::cluster::Guest;
use talmox_pve_types::api::qemu::Vm;
use talmox_pve_types::config::VmConfig;
use talmox_pve_types::id::{DiskSlot, NodeName};
use talmox_pve_types::property::GIB;

use super::builder::Builder;
use super::placed::Placed;
use super::placement::places;
use super::removed_option::removed_options;
use crate::desired::{Desired, DesiredNode};
use crate::observed::Pve;
use crate::ownership::{TemplateMark, version_in_name};
use crate::plan::{Class, Finding, FindingCode};

/// The template of a node.
pub(super) struct Template {
    pub(super) vm: Vm,
    pub(super) has_cloudinit: bool,
    /// Options of the template that must be deleted from the clone.
    pub(super) removed: Vec<String>,
    /// Finding if the template is, or may be, the wrong one.
    pub(super) finding: Option<Finding>,
}

/// The template of a node, by name or vmid. If there are several, the one on the host of the node.
pub(super) fn template(
    builder: &Builder<'_>,
    node: &DesiredNode,
    placed: &Placed<'_>,
) -> Result<Template, Finding> {
    let expected = node.template.as_deref().unwrap_or_default();
    let pve = &builder.observed.pve;
    let host = &placed.own.vm.node;
    let Some(guest) = find(pve, expected, host) else {
        let message = format!("template {expected} not found, or the token lacks VM.Audit on it");
        return Err(Finding::error(FindingCode::TemplateMissing, &node.name, message).hint(
            "run `talmox template create`, and put the template into the pool, so that the token can see it",
        ));
    };
    if guest.node != *host {
        let message = format!("the template {expected} is on {}, not on {host}", guest.node);
        return Err(Finding::error(FindingCode::TemplateMissing, &node.name, message).hint(
            format!("create the template on {host} too, or put the node on {}", guest.node),
        ));
    }
    let seen = pve.vms.get(&guest.vmid).and_then(|seen| seen.config.as_ref().ok());
    let Some(config) = seen else {
        let message = format!("the config of the template {expected} cannot be read");
        return Err(Finding::error(FindingCode::TemplateUnreadable, &node.name, message)
            .hint("grant VM.Audit on it to the token"));
    };
    let system = &node.vm.disks[0];
    let Some(disk) = config.drive(&system.slot) else {
        let message = format!("the template {expected} has no disk at {}", system.slot);
        return Err(Finding::error(FindingCode::TemplateUnsuitable, &node.name, message)
            .hint("set `disk_bus:` to the bus of the template"));
    };
    if disk.size().is_some_and(|size| size > u64::from(system.gib) * GIB) {
        let message =
            format!("the disk of the template {expected} is larger than {} GiB", system.gib);
        return Err(Finding::error(FindingCode::TemplateUnsuitable, &node.name, message)
            .hint("give the node a larger disk: disks cannot shrink"));
    }
    let (name, expected) = (expected, node.vm.desired_options(None));
    let mut more = removed_options(node, &expected, config).into_iter();
    if let Some(disk) = more.find(|one| one.class == Class::Destroy) {
        let message =
            format!("the template {name} has a disk {} that the node does not have", disk.key);
        let hint = "remove the disk from the template, or give the node one: `disks: [{size: …}]`";
        return Err(Finding::error(FindingCode::TemplateUnsuitable, &node.name, message).hint(hint));
    }
    let removed = removed_from_template(node, config);
    let vm = Vm::new(&guest.node, guest.vmid);
    let finding = version_finding(builder.desired, node, guest, config);
    Ok(Template { vm, has_cloudinit: config.cloudinit().is_some(), removed, finding })
}

/// The template of this name or vmid. If there are several, the one on this host.
fn find<'a>(pve: &'a Pve, expected: &str, host: &NodeName) -> Option<&'a Guest> {
    let is_it = |guest: &&Guest| {
        guest.template
            && (guest.name.as_deref() == Some(expected) || guest.vmid.to_string() == expected)
    };
    let known = pve.resources.guests.iter().filter(is_it);
    known.min_by_key(|guest| (guest.node != *host, guest.vmid))
}

/// Findings about existing templates whose Talos version or schematic differs, or may differ, from the one that nodes need.
pub fn template_findings(desired: &Desired, pve: &Pve) -> Vec<Finding> {
    let mut findings = vec![];
    for placed in places(desired, pve).nodes {
        let (node, host) = (placed.node, &placed.own.vm.node);
        let Some(guest) = node.template.as_deref().and_then(|expected| find(pve, expected, host))
        else {
            continue;
        };
        let seen = pve.vms.get(&guest.vmid).and_then(|seen| seen.config.as_ref().ok());
        if let Some(config) = seen.filter(|_| guest.node == *host) {
            findings.extend(version_finding(desired, node, guest, config));
        }
    }
    Finding::sort(&mut findings);
    findings
}

/// Compares the mark of a template with the mark that the node needs. A template without a mark was created by hand. Such a
/// template is accepted, with a warning if its name contains another version.
fn version_finding(
    desired: &Desired,
    node: &DesiredNode,
    guest: &Guest,
    config: &VmConfig,
) -> Option<Finding> {
    let expected = mark(desired, node)?;
    let name = config.name().unwrap_or_default();
    let (host, vmid) = (&guest.node, guest.vmid);
    let subject = format!("{host}/{name}");
    let Some(found) = TemplateMark::find(config.description()) else {
        let version = version_in_name(name).filter(|version| *version != expected.talos)?;
        let message = format!(
            "by its name the template has Talos {version}, and the nodes need {}",
            expected.talos
        );
        let hint = "set another template name in the inventory, and run `talmox template create`; from Talos 1.13 on, a run \
                    rejects nodes of another minor version";
        return Some(Finding::warning(FindingCode::TemplateVersion, &subject, message).hint(hint));
    };
    let difference = found.difference(&expected)?;
    let hint = format!(
        "set another template name in the inventory, or delete this one if nothing else uses it (on {host}: qm destroy \
         {vmid}); then run `talmox template create`"
    );
    Some(
        Finding::error(
            FindingCode::TemplateVersion,
            &subject,
            format!("nodes cannot be cloned from it: {difference}"),
        )
        .hint(hint),
    )
}

/// The mark of a template that fits a node. None if the Talos version or the schematic of the node is not known.
pub(super) fn mark(desired: &Desired, node: &DesiredNode) -> Option<TemplateMark> {
    let (talos, schematic) = (desired.talos_version.clone()?, node.schematic.clone()?);
    Some(TemplateMark { talos, schematic })
}

/// Options of a template, without disks, that the VM of the node must not have. A step deletes them from the clone.
pub(super) fn removed_from_template(node: &DesiredNode, config: &VmConfig) -> Vec<String> {
    let all = removed_options(node, &node.vm.options, config).into_iter();
    let has_gpu = node.vm.gpu.is_some();
    let plain = all.filter(|one| one.key.parse::<DiskSlot>().is_err());
    plain.map(|one| one.key).filter(|key| !(has_gpu && key == "hostpci0")).collect()
}
