//! The template that a VM is cloned from, and the options that a clone must lose.

use talmox_pve_types::api::cluster::Guest;
use talmox_pve_types::api::qemu::Vm;
use talmox_pve_types::config::VmConfig;
use talmox_pve_types::id::{DiskSlot, NodeName};
use talmox_pve_types::property::GIB;

use super::builder::Builder;
use super::placed::Placed;
use super::placement::places;
use super::removed_option::surplus;
use crate::desired::{Desired, DesiredNode};
use crate::observed::Pve;
use crate::ownership::{TemplateMark, version_in_name};
use crate::plan::{Class, Finding};

/// The template of a node.
pub(super) struct Template {
    pub(super) vm: Vm,
    pub(super) has_cloudinit: bool,
    /// Options that a clone inherits and must lose.
    pub(super) surplus: Vec<String>,
    /// Why it is, or may be, the wrong template.
    pub(super) doubt: Option<Finding>,
}

/// The template of a node, by name or vmid, on the node's host if there are several.
pub(super) fn template(
    builder: &Builder<'_>,
    node: &DesiredNode,
    placed: &Placed<'_>,
) -> Result<Template, Finding> {
    let wanted = node.template.as_deref().unwrap_or_default();
    let pve = &builder.observed.pve;
    let host = &placed.own.vm.node;
    let Some(guest) = find(pve, wanted, host) else {
        let message = format!("there is no template {wanted} that we may see");
        return Err(Finding::error(&node.name, message).hint(
            "talmox template create makes one; put it into the pool, so that it can be seen",
        ));
    };
    if guest.node != *host {
        let message = format!("the template {wanted} is on {}, and not on {host}", guest.node);
        return Err(Finding::error(&node.name, message)
            .hint(format!("make the template on {host} too, or put the node on {}", guest.node)));
    }
    let seen = pve.vms.get(&guest.vmid).and_then(|seen| seen.config.as_ref().ok());
    let Some(config) = seen else {
        let message = format!("the config of the template {wanted} cannot be read");
        return Err(Finding::error(&node.name, message).hint("VM.Audit on it is needed"));
    };
    let system = &node.vm.disks[0];
    let Some(disk) = config.drive(&system.slot) else {
        let message = format!("the template {wanted} has no disk at {}", system.slot);
        return Err(
            Finding::error(&node.name, message).hint("set `disk_bus:` as the template has it")
        );
    };
    if disk.size().is_some_and(|size| size > u64::from(system.gib) * GIB) {
        let message =
            format!("the disk of the template {wanted} is larger than {} GiB", system.gib);
        return Err(Finding::error(&node.name, message)
            .hint("disks cannot shrink: give the node a larger one"));
    }
    let (name, wanted) = (wanted, node.vm.wanted(None));
    let mut more = surplus(node, &wanted, config).into_iter();
    if let Some(disk) = more.find(|one| one.class == Class::Destroy) {
        let message = format!("the template {name} has a disk {} too many", disk.key);
        let hint = "take the disk out of the template, or give the node one: `disks: [{size: …}]`";
        return Err(Finding::error(&node.name, message).hint(hint));
    }
    let surplus = surplus_of_template(node, config);
    let vm = Vm::new(&guest.node, guest.vmid);
    let doubt = doubt(builder.desired, node, guest, config);
    Ok(Template { vm, has_cloudinit: config.cloudinit().is_some(), surplus, doubt })
}

/// The template of this name or vmid, on this host if there are several.
fn find<'a>(pve: &'a Pve, wanted: &str, host: &NodeName) -> Option<&'a Guest> {
    let is_it = |guest: &&Guest| {
        guest.template
            && (guest.name.as_deref() == Some(wanted) || guest.vmid.to_string() == wanted)
    };
    let known = pve.resources.guests.iter().filter(is_it);
    known.min_by_key(|guest| (guest.node != *host, guest.vmid))
}

/// Findings about existing templates that contain another Talos than nodes need, or may.
pub fn template_doubts(desired: &Desired, pve: &Pve) -> Vec<Finding> {
    let mut doubts = vec![];
    for placed in places(desired, pve).nodes {
        let (node, host) = (placed.node, &placed.own.vm.node);
        let Some(guest) = node.template.as_deref().and_then(|wanted| find(pve, wanted, host))
        else {
            continue;
        };
        let seen = pve.vms.get(&guest.vmid).and_then(|seen| seen.config.as_ref().ok());
        if let Some(config) = seen.filter(|_| guest.node == *host) {
            doubts.extend(doubt(desired, node, guest, config));
        }
    }
    Finding::sort(&mut doubts);
    doubts
}

/// Compares the template mark with what the node needs. A template without a mark was created by hand; it is accepted unless
/// its name contains another version.
fn doubt(
    desired: &Desired,
    node: &DesiredNode,
    guest: &Guest,
    config: &VmConfig,
) -> Option<Finding> {
    let wanted = mark(desired, node)?;
    let name = config.name().unwrap_or_default();
    let (host, vmid) = (&guest.node, guest.vmid);
    let subject = format!("{host}/{name}");
    let Some(found) = TemplateMark::find(config.description()) else {
        let version = version_in_name(name).filter(|version| *version != wanted.talos)?;
        let message =
            format!("by its name the template has Talos {version}, and {} is wanted", wanted.talos);
        let hint = "nodes of another minor version are refused once they run, if they tell it (Talos 1.13 on); name another template, and \
                    `talmox template create` makes it";
        return Some(Finding::warning(&subject, message).hint(hint));
    };
    let difference = found.difference(&wanted)?;
    let hint = format!(
        "name another template, or delete this one if nobody else needs it (on {host}: qm destroy {vmid}); then \
         `talmox template create` makes it"
    );
    Some(
        Finding::error(&subject, format!("nodes cannot be cloned from it: {difference}"))
            .hint(hint),
    )
}

/// The mark of a template that fits a node.
pub(super) fn mark(desired: &Desired, node: &DesiredNode) -> Option<TemplateMark> {
    let (talos, schematic) = (desired.talos_version.clone()?, node.schematic.clone()?);
    Some(TemplateMark { talos, schematic })
}

/// Options of a template, other than disks, that the node does not have: a clone must lose them.
pub(super) fn surplus_of_template(node: &DesiredNode, config: &VmConfig) -> Vec<String> {
    let all = surplus(node, &node.vm.options, config).into_iter();
    let has_gpu = node.vm.gpu.is_some();
    let plain = all.filter(|one| one.key.parse::<DiskSlot>().is_err());
    plain.map(|one| one.key).filter(|key| !(has_gpu && key == "hostpci0")).collect()
}
