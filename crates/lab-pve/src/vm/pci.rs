//! PCI passthrough: the devices that a config requests, and the VMs that use them.

use std::collections::BTreeMap;

use super::machine;
use crate::guest::Guests;
use crate::pve_state::{Config, Host, PciDevice, PveState};
use crate::schema::{self, Fields, FormatName};
use crate::{ApiError, Release};

/// Chooses the PCI devices for each `hostpciN` of a VM that starts.
pub(crate) fn choose(
    pve_state: &PveState,
    guests: &Guests,
    node: &str,
    vmid: u32,
    options: &Config,
) -> Result<Vec<String>, ApiError> {
    let is_q35 = machine::is_q35(pve_state.release, options.get("machine"));
    let mut requests = vec![];
    for (key, fields) in passed(pve_state.release, options) {
        let alternatives = alternatives(pve_state, node, &fields)?;
        if fields.flag("pcie").unwrap_or_default() && !is_q35 {
            return Err(ApiError::failed(format!(
                "q35 machine model is not enabled at /usr/share/perl5/PVE/QemuServer/PCI.pm line {}.",
                if pve_state.release == Release::V8 { 501 } else { 510 }
            )));
        }
        // Devices with `mdev` are not reserved, because several VMs can share the physical device.
        if !fields.has("mdev") {
            requests.push((key, alternatives));
        }
    }
    let taken = taken(pve_state, guests, node, vmid);
    let mut chosen: Vec<String> = vec![];
    for (key, alternatives) in requests {
        let free = |group: &&Vec<String>| {
            group.iter().all(|device| !taken.contains_key(device) && !chosen.contains(device))
        };
        match alternatives.as_slice() {
            [only] => {
                if let Some(twice) = only.iter().find(|device| chosen.contains(device)) {
                    let text = format!("device '{twice}' assigned more than once");
                    return Err(ApiError::failed(text));
                }
                check_free(pve_state, only, &taken)?;
                chosen.extend(only.iter().cloned());
            }
            several => {
                let group = several.iter().find(free).cloned().ok_or_else(|| {
                    ApiError::failed(format!("could not find a free device for '{key}'"))
                })?;
                chosen.extend(group);
            }
        }
    }
    check_iommu(pve_state, node, &chosen)?;
    Ok(chosen)
}

/// `hostpciN` options of a config, sorted by number.
fn passed(release: Release, options: &Config) -> Vec<(String, Fields)> {
    let format = schema::format(release, FormatName::HostPci);
    (0..16)
        .map(|n| format!("hostpci{n}"))
        .filter_map(|key| Some((key.clone(), format.parse(options.get(&key)?).ok()?)))
        .collect()
}

/// Groups of devices that satisfy a `hostpciN` option. The VM gets all devices of one group.
fn alternatives(
    pve_state: &PveState,
    node: &str,
    fields: &Fields,
) -> Result<Vec<Vec<String>>, ApiError> {
    let host = pve_state.hosts.get(node);
    let paths: Vec<String> = match (fields.get("mapping"), fields.get("host")) {
        (Some(_), Some(_)) => {
            return Err(ApiError::failed("Cannot set both 'host' and 'mapping'."));
        }
        (Some(mapping), None) => mapped(pve_state, node, mapping)?,
        (None, Some(path)) => vec![path.to_owned()],
        (None, None) => return Err(ApiError::failed("Either 'host' or 'mapping' must be set.")),
    };
    paths
        .iter()
        .map(|group| {
            let mut devices = vec![];
            for path in group.split(';') {
                let found = host.map(|host| functions(host, path)).unwrap_or_default();
                if found.is_empty() {
                    return Err(ApiError::failed(format!("no PCI device found for '{path}'")));
                }
                devices.extend(found);
            }
            Ok(devices)
        })
        .collect()
}

/// Addresses that a path in a config means: one function, or all functions of a device.
fn functions(host: &Host, path: &str) -> Vec<String> {
    let full = full_path(path);
    let is_meant = |device: &&PciDevice| {
        device.address == full || device.address.starts_with(&format!("{full}."))
    };
    host.pci.iter().filter(is_meant).map(|device| device.address.clone()).collect()
}

/// PCI address with its domain. A config may omit the domain.
fn full_path(path: &str) -> String {
    if path.matches(':').count() == 1 { format!("0000:{path}") } else { path.to_owned() }
}

/// Device paths of a mapping on this host. An error if the mapping does not match the hardware.
fn mapped(pve_state: &PveState, node: &str, mapping: &str) -> Result<Vec<String>, ApiError> {
    let format = schema::format(pve_state.release, FormatName::PciMap);
    let known = pve_state.mappings.pci.get(mapping);
    let entries: Vec<Fields> = known
        .into_iter()
        .flat_map(|known| &known.entries)
        .filter_map(|entry| format.parse(entry).ok())
        .filter(|entry| entry.get("node") == Some(node))
        .collect();
    if entries.is_empty() {
        return Err(ApiError::failed(format!("PCI device mapping not found for '{mapping}'")));
    }
    let mut paths = vec![];
    for entry in &entries {
        check_hardware(pve_state, node, mapping, entry).map_err(|why| {
            ApiError::failed(format!(
                "PCI device mapping invalid (hardware probably changed): {why}\n"
            ))
        })?;
        paths.push(entry.get("path").unwrap_or_default().to_owned());
    }
    Ok(paths)
}

/// Compares the properties of a mapping with the hardware, and returns the first difference as an error.
fn check_hardware(
    pve_state: &PveState,
    node: &str,
    mapping: &str,
    entry: &Fields,
) -> Result<(), String> {
    let path = entry.get("path").unwrap_or_default();
    for (nth, path) in path.split(';').enumerate() {
        let path = if path.contains('.') { path.to_owned() } else { format!("{path}.0") };
        let full = full_path(&path);
        let device = pve_state
            .hosts
            .get(node)
            .and_then(|host| host.pci.iter().find(|device| device.address == full))
            .ok_or_else(|| format!("pci device '{path}' not found"))?;
        for (name, real) in properties(device) {
            let configured = entry.get(name).map(plain);
            if name == "iommugroup" && nth > 0 {
                continue;
            }
            match (real, configured) {
                (Some(real), Some(configured)) if real != configured => {
                    return Err(format!(
                        "'{name}' does not match for '{mapping}' ({real} != {configured})"
                    ));
                }
                (Some(_), None) => {
                    return Err(format!("missing expected property '{name}' for device '{path}'"));
                }
                (None, Some(_)) => {
                    let text =
                        format!("unexpected property '{name}' configured for device '{path}'");
                    return Err(text);
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Properties of a device that a mapping contains, in the order in which they are compared.
fn properties(device: &PciDevice) -> [(&'static str, Option<String>); 3] {
    let subsystem = device.subsystem_vendor.as_ref().zip(device.subsystem_device.as_ref());
    [
        ("id", Some(plain(&format!("{}:{}", device.vendor, device.device)))),
        ("iommugroup", Some(device.iommu_group.to_string())),
        ("subsystem-id", subsystem.map(|(vendor, device)| plain(&format!("{vendor}:{device}")))),
    ]
}

fn plain(id: &str) -> String {
    id.replace("0x", "")
}

/// PCI devices that other VMs of the host use, each with the vmid of the VM that uses it.
fn taken(pve_state: &PveState, guests: &Guests, node: &str, vmid: u32) -> BTreeMap<String, u32> {
    let mut taken = BTreeMap::new();
    for (other, vm) in pve_state.vms.iter().filter(|(id, vm)| **id != vmid && vm.node == node) {
        let first = || {
            let run = vm.run.as_ref()?;
            let groups = passed(pve_state.release, &run.config);
            let devices = groups.iter().filter_map(|(_, fields)| {
                alternatives(pve_state, node, fields).ok()?.into_iter().next()
            });
            Some(devices.flatten().collect())
        };
        let devices = guests.held(*other).or_else(first).unwrap_or_default();
        taken.extend(devices.into_iter().map(|device| (device, *other)));
    }
    taken
}

fn check_free(
    pve_state: &PveState,
    group: &[String],
    taken: &BTreeMap<String, u32>,
) -> Result<(), ApiError> {
    let used = group.iter().find_map(|device| Some((device, taken.get(device)?)));
    let Some((device, other)) = used else { return Ok(()) };
    let runs = pve_state.vms.get(other).is_some_and(crate::pve_state::Vm::is_running);
    Err(ApiError::failed(if runs {
        format!("PCI device '{device}' already in use by VMID '{other}'")
    } else {
        format!("PCI device '{device}' is currently reserved for use by VMID '{other}'")
    }))
}

fn check_iommu(pve_state: &PveState, node: &str, chosen: &[String]) -> Result<(), ApiError> {
    let without = pve_state
        .hosts
        .get(node)
        .into_iter()
        .flat_map(|host| &host.pci)
        .any(|device| chosen.contains(&device.address) && device.iommu_group < 0);
    if without {
        return Err(ApiError::failed("cannot prepare PCI pass-through, IOMMU not present"));
    }
    Ok(())
}
