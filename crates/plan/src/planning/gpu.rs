//! PCI mappings of GPUs. A token may pass through only mapped devices.

use talmox_pve_types::api::mapping::{Mapped, MappedDevice, PciMapping};
use talmox_pve_types::api::node::PciDevice;
use talmox_pve_types::config::VmConfig;
use talmox_pve_types::id::{ConfigId, NodeName};
use talmox_pve_types::property::{HostPci, PciSource};

use super::builder::Builder;
use crate::desired::{Desired, DesiredNode, GpuSource, GpuSpec};
use crate::observed::Pve;
use crate::plan::{
    Action, Change, Class, CreateMapping, FieldChange, Finding, FindingCode, Object, StepId,
};
use crate::rights::{Grants, PveRole};

/// A PCI device of a node. `mapping` is set if a mapping must be created for the device.
#[derive(Clone, Debug)]
pub(super) struct Device {
    pub(super) hostpci: HostPci,
    pub(super) mapping: Option<CreateMapping>,
}

/// The `hostpci0` option of the VM of a node on this host. None if the node has no PCI device.
pub(super) fn device(
    desired: &Desired,
    node: &DesiredNode,
    host: &NodeName,
    pve: &Pve,
) -> Result<Option<Device>, Finding> {
    let Some(gpu) = &node.vm.gpu else { return Ok(None) };
    let named = |id: ConfigId, mapping| {
        Ok(Some(Device { hostpci: gpu.hostpci(PciSource::Mapping(id)), mapping }))
    };
    match &gpu.source {
        GpuSource::Mapping(id) => {
            check_mapping(desired, node, id, host, pve)?;
            named(id.clone(), None)
        }
        GpuSource::Address(address) if desired.login.is_root() => {
            let hostpci = gpu.hostpci(PciSource::Host(address.clone()));
            Ok(Some(Device { hostpci, mapping: None }))
        }
        GpuSource::Address(address) => {
            if let Some(known) = mappings(pve).iter().find(|one| maps(one, host, address)) {
                return named(known.id.clone(), None);
            }
            let create = new_mapping(desired, node, host, address, pve)?;
            named(create.id.clone(), Some(create))
        }
    }
}

/// The `hostpci0` option that an existing VM should have. If the inventory sets the address of the device and the VM uses a
/// mapping of that device, the VM keeps the mapping.
pub(super) fn desired_hostpci(
    gpu: &GpuSpec,
    config: &VmConfig,
    host: &NodeName,
    pve: &Pve,
) -> Option<HostPci> {
    let found = config.get("hostpci0").map(HostPci::parse);
    let source = match (&gpu.source, found.map(|found| found.source)) {
        (GpuSource::Mapping(id), _) => PciSource::Mapping(id.clone()),
        (GpuSource::Address(address), Some(PciSource::Mapping(id))) => {
            let known = mappings(pve).iter().find(|one| one.id == id);
            match known {
                Some(known) if maps(known, host, address) => PciSource::Mapping(id),
                _ => PciSource::Host(address.clone()),
            }
        }
        (GpuSource::Address(address), _) => PciSource::Host(address.clone()),
    };
    Some(gpu.hostpci(source))
}

/// Plans the step that creates a PCI mapping. Several nodes may use the same mapping.
pub(super) fn create_mapping(builder: &mut Builder<'_>, create: CreateMapping) -> StepId {
    let id = format!("mapping/{}", create.id);
    if !builder.steps.has(&StepId::new(id.clone())) {
        let object = Object::Mapping(create.id.to_string());
        let devices = create.mapped.devices.iter();
        let fields = devices.map(|device| FieldChange::set("map", device)).collect();
        builder.changes.push(Change::planned(object, Class::Create, fields));
    }
    builder.steps.add(id, None, [], Action::CreateMapping(create))
}

pub(super) fn mappings(pve: &Pve) -> &[PciMapping] {
    match &pve.mappings {
        Some(Ok(mappings)) => mappings,
        _ => &[],
    }
}

/// Whether a mapping contains this device and no other device of the host. With several devices, Proxmox would choose any
/// free one.
fn maps(mapping: &PciMapping, host: &NodeName, address: &str) -> bool {
    let mut here = mapping.mapped.devices.iter().filter(|device| device.node == *host);
    let Some(device) = here.next() else { return false };
    here.next().is_none() && device.path.split(';').any(|path| is_same(path, address))
}

/// Whether both addresses are the same device. An address without a function is the whole device.
fn is_same(path: &str, address: &str) -> bool {
    path == address || path.strip_suffix(".0") == Some(address)
}

fn check_mapping(
    desired: &Desired,
    node: &DesiredNode,
    id: &ConfigId,
    host: &NodeName,
    pve: &Pve,
) -> Result<(), Finding> {
    // A token may be allowed to use mappings, but not to list them. Then a problem shows only when the VM starts.
    let Some(Ok(known)) = &pve.mappings else { return Ok(()) };
    let Some(mapping) = known.iter().find(|one| one.id == *id) else {
        let message = format!("PCI mapping {id} not found, or the token lacks Mapping.Audit on it");
        let grants = Grants::one(format!("/mapping/pci/{id}"), PveRole::Device);
        return Err(Finding::error(FindingCode::MappingMissing, &node.name, message).hint(format!(
            "create it under Datacenter, Resource Mappings, and grant the right as root on a host:\n{}",
            lines(desired, &grants)
        )));
    };
    if !mapping.mapped.devices.iter().any(|device| device.node == *host) {
        let message = format!("the PCI mapping {id} has no device on {host}");
        let hint = "add the device of that host to the mapping";
        return Err(Finding::error(FindingCode::MappingMismatch, &node.name, message).hint(hint));
    }
    match pve.mapping_problems.get(&(host.clone(), id.clone())).and_then(|all| all.first()) {
        None => Ok(()),
        Some(problem) => {
            let message = format!(
                "the PCI mapping {id} does not match the devices of {host}: {}",
                problem.trim()
            );
            let hint =
                "correct it under Datacenter, Resource Mappings: VMs with it would not start";
            Err(Finding::error(FindingCode::MappingMismatch, &node.name, message).hint(hint))
        }
    }
}

fn lines(desired: &Desired, grants: &Grants) -> String {
    grants.lines(&desired.login).join("\n")
}

fn new_mapping(
    desired: &Desired,
    node: &DesiredNode,
    host: &NodeName,
    address: &str,
    pve: &Pve,
) -> Result<CreateMapping, Finding> {
    let name: String = format!("{host}-{address}")
        .chars()
        .map(|c| if matches!(c, ':' | '.') { '-' } else { c })
        .collect();
    let id: ConfigId = format!("pci-{name}").parse().map_err(|_| {
        Finding::error(
            FindingCode::MappingMissing,
            &node.name,
            format!("no valid name for a PCI mapping can be derived from {host} {address}"),
        )
        .hint("create a mapping by hand, and set `gpu: {mapping: NAME}` in the inventory")
    })?;
    // To create a mapping, talmox must list the devices of the host.
    let mut grants = Grants::one("/mapping/pci", PveRole::Mapping);
    grants.add("/", PveRole::Host);
    let allow = || {
        format!(
            "create a mapping for the device and set `gpu: {{mapping: NAME}}` in the inventory, or grant the right as root on a host:\n{}",
            lines(desired, &grants)
        )
    };
    if !pve.permissions.allows("/mapping/pci", "Mapping.Modify") {
        let message = format!(
            "the PCI device {address} has no mapping, and the token may not create one: only root@pam can use a PCI address \
             without a mapping"
        );
        return Err(Finding::error(FindingCode::MappingMissing, &node.name, message).hint(allow()));
    }
    let Some(found) = listed(node, host, address, pve) else {
        let message = format!("the PCI devices of {host} cannot be listed");
        return Err(Finding::error(FindingCode::MappingMissing, &node.name, message).hint(allow()));
    };
    let devices = vec![mapped(host, address, found?)];
    let mapped = Mapped { devices, ..Mapped::default() };
    Ok(CreateMapping { id, mapped, deadline: desired.timeouts.task })
}

/// The device with this address. None if the devices of the host are not known. An error if the device cannot be passed
/// through.
pub(super) fn listed<'a>(
    node: &DesiredNode,
    host: &NodeName,
    address: &str,
    pve: &'a Pve,
) -> Option<Result<&'a PciDevice, Finding>> {
    let Some(Ok(devices)) = pve.devices.get(host) else { return None };
    let Some(found) = devices.iter().find(|device| is_same(&device.address, address)) else {
        let message = format!("{host} has no PCI device {address}");
        let hint = "correct the address; lspci -D on the host lists the devices";
        return Some(Err(
            Finding::error(FindingCode::DeviceMissing, &node.name, message).hint(hint)
        ));
    };
    if found.iommu_group.is_none() {
        let message = format!("{host} has no IOMMU: {address} cannot be passed through");
        return Some(Err(Finding::error(FindingCode::IommuOff, &node.name, message).hint(
            "enable it in the firmware, and with `intel_iommu=on` where the kernel needs it",
        )));
    }
    Some(Ok(found))
}

fn mapped(host: &NodeName, address: &str, found: &PciDevice) -> MappedDevice {
    let subsystem = found.subsystem_vendor.as_ref().zip(found.subsystem_device.as_ref());
    MappedDevice {
        node: host.clone(),
        path: address.to_owned(),
        id: format!("{}:{}", found.vendor, found.device),
        iommu_group: found.iommu_group.and_then(|group| group.try_into().ok()),
        subsystem_id: subsystem.map(|(vendor, device)| format!("{vendor}:{device}")),
    }
}
