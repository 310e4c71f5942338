//! Templates that VMs are cloned from: which one, and what a clone has too much.

use talmox_pve::api::cluster::Guest;
use talmox_pve::api::qemu::Vm;
use talmox_pve::config::VmConfig;
use talmox_pve::id::DiskSlot;
use talmox_pve::property::GIB;

use super::Builder;
use super::change::{Class, Finding};
use super::place::Placed;
use super::surplus::surplus;
use crate::desired::DesiredNode;

/// What a node is cloned from.
pub(super) struct Template {
    pub(super) vm: Vm,
    pub(super) has_cloudinit: bool,
    /// What a clone has from it and should not.
    pub(super) surplus: Vec<String>,
}

/// The template by its name or vmid, on the node's host if there are several.
pub(super) fn template(
    builder: &Builder<'_>,
    node: &DesiredNode,
    placed: &Placed<'_>,
) -> Result<Template, Finding> {
    let wanted = node.template.as_deref().unwrap_or_default();
    let pve = &builder.world.pve;
    let is_it = |guest: &&Guest| {
        guest.template
            && (guest.name.as_deref() == Some(wanted) || guest.vmid.to_string() == wanted)
    };
    let mut known: Vec<&Guest> = pve.resources.guests.iter().filter(is_it).collect();
    let host = &placed.own.vm.node;
    known.sort_by_key(|guest| (guest.node != *host, guest.vmid));
    let Some(guest) = known.first() else {
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
    Ok(Template { vm, has_cloudinit: config.cloudinit().is_some(), surplus })
}

/// What a template has beside its disks and the node has not: a clone must lose it.
pub(super) fn surplus_of_template(node: &DesiredNode, config: &VmConfig) -> Vec<String> {
    let all = surplus(node, &node.vm.options, config).into_iter();
    let has_gpu = node.vm.gpu.is_some();
    let plain = all.filter(|one| one.key.parse::<DiskSlot>().is_err());
    plain.map(|one| one.key).filter(|key| !(has_gpu && key == "hostpci0")).collect()
}
