//! Preflight check: PCI devices exist, can be passed through, and are not in use by another VM.

use talmox_pve_types::id::{NodeName, VmId};
use talmox_pve_types::property::PciSource;

use crate::desired::{GpuSource, GpuSpec};
use crate::observed::{PassedOn, Pve};
use crate::plan::{Action, Finding, FindingCode};
use crate::planning::builder::Builder;
use crate::planning::gpu;
use crate::planning::placed::Placed;

pub(super) fn check(builder: &Builder<'_>, new: &[&Placed<'_>], findings: &mut Vec<Finding>) {
    let pve = &builder.observed.pve;
    let mut desired: Vec<(&Placed<'_>, String)> = vec![];
    for placed in new {
        let (node, host) = (placed.node, &placed.own.vm.node);
        let Some(address) = node.vm.gpu.as_ref().and_then(|gpu| wanted_address(gpu, host, pve))
        else {
            continue;
        };
        if let Some(Err(finding)) = gpu::listed(node, host, &address, pve) {
            findings.push(finding);
        }
        desired.push((placed, address));
    }
    for (index, (placed, address)) in desired.iter().enumerate() {
        let (name, host) = (&placed.node.name, &placed.own.vm.node);
        let earlier = desired[..index]
            .iter()
            .find(|(other, taken)| other.own.vm.node == *host && is_same_device(taken, address));
        if let Some((other, _)) = earlier {
            let message = format!(
                "the PCI device {address} of {host} is also assigned to {}",
                other.node.name
            );
            let hint = "give the node another device: only one VM at a time can have it";
            findings.push(Finding::error(FindingCode::DeviceInUse, name, message).hint(hint));
        }
        for (vmid, holder) in holders(builder, host) {
            let devices = holder.devices.iter();
            let mut devices = devices.filter_map(|device| address_of(&device.source, host, pve));
            if devices.any(|taken| is_same_device(&taken, address)) {
                findings.push(taken_by(name, address, vmid, &holder));
            }
        }
    }
}

fn taken_by(name: &str, address: &str, vmid: VmId, holder: &PassedOn) -> Finding {
    let called = holder.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    let host = &holder.host;
    if holder.is_running {
        let message =
            format!("VM {vmid}{called} is running with the PCI device {address} of {host}");
        let hint = "remove it from that VM, or give the node another device";
        Finding::error(FindingCode::DeviceInUse, name, message).hint(hint)
    } else {
        let message = format!("VM {vmid}{called} also has the PCI device {address} of {host}");
        let hint = "keep that VM stopped: only one of the two can run at a time";
        Finding::warning(FindingCode::DeviceInUse, name, message).hint(hint)
    }
}

/// The VMs with PCI devices on a host, as far as the token may see these VMs.
fn holders(builder: &Builder<'_>, host: &NodeName) -> Vec<(VmId, PassedOn)> {
    let pve = &builder.observed.pve;
    // A VM that this plan destroys does not keep its device.
    let is_destroyed = |vmid: VmId| {
        builder.steps.iter().any(|step| match &step.action {
            Action::DestroyVm(destroy) => destroy.own.vm.vmid == vmid,
            _ => false,
        })
    };
    let own =
        pve.vms.iter().filter(|(vmid, _)| !is_destroyed(**vmid)).filter_map(|(vmid, seen)| {
            let config = seen.config.as_ref().ok().filter(|config| !config.is_template())?;
            Some((*vmid, PassedOn::of(&seen.host, seen.is_running, config)))
        });
    let others = pve.passed_on.iter().map(|(vmid, holder)| (*vmid, holder.clone()));
    own.chain(others).filter(|(_, holder)| holder.host == *host).collect()
}

fn wanted_address(gpu: &GpuSpec, host: &NodeName, pve: &Pve) -> Option<String> {
    match &gpu.source {
        GpuSource::Address(address) => Some(full(address)),
        GpuSource::Mapping(id) => address_of(&PciSource::Mapping(id.clone()), host, pve),
    }
}

/// The address of the device. None for a mapping with several devices on the host, because Proxmox chooses one of them.
fn address_of(source: &PciSource, host: &NodeName, pve: &Pve) -> Option<String> {
    match source {
        PciSource::Host(address) => address.split(';').next().map(full),
        PciSource::Mapping(id) => {
            let known = gpu::mappings(pve).iter().find(|one| one.id == *id)?;
            let here = known.mapped.devices.iter().filter(|device| device.node == *host);
            let here: Vec<_> = here.collect();
            let [only] = here.as_slice() else { return None };
            only.path.split(';').next().map(full)
        }
    }
}

/// The address in lower case, with the PCI domain, which may be omitted in the inventory.
fn full(address: &str) -> String {
    let address = address.to_ascii_lowercase();
    match address.matches(':').count() {
        1 => format!("0000:{address}"),
        _ => address,
    }
}

/// Whether both addresses are the same device. An address without a function is the whole device.
fn is_same_device(one: &str, other: &str) -> bool {
    let is_part = |whole: &str, part: &str| {
        !whole.contains('.') && part.strip_prefix(whole).is_some_and(|rest| rest.starts_with('.'))
    };
    one == other || is_part(one, other) || is_part(other, one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_the_same_in_any_spelling() {
        assert!(is_same_device(&full("28:00.0"), &full("0000:28:00.0")));
        assert!(is_same_device(&full("0000:0A:00"), &full("0a:00.1")));
        assert!(!is_same_device(&full("28:00.0"), &full("28:00.1")));
        assert!(!is_same_device(&full("28:00"), &full("28:001.0")));
    }
}
