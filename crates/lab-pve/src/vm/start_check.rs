//! Checks at VM start: volumes, machine type, devices and bridges.

use super::drive::{self, DriveSource};
use super::identity::is_net;
use super::machine;
use super::pci;
use crate::guest::Guests;
use crate::pve_state::{Config, Host, PveState};
use crate::schema::{self, FormatName};
use crate::storage;
use crate::{ApiError, Release};

/// Result of a successful start check.
#[derive(Debug, Default)]
pub(crate) struct StartCheck {
    /// PCI devices that the VM gets.
    pub(crate) devices: Vec<String>,
    pub(crate) warnings: Vec<String>,
    /// Output of QEMU, if QEMU exits immediately after the start.
    pub(crate) exits: Option<Vec<String>>,
}

/// Makes all checks, in the same order as Proxmox.
pub(crate) fn check(
    pve_state: &PveState,
    guests: &Guests,
    node: &str,
    vmid: u32,
    forced_machine: Option<&String>,
) -> Result<StartCheck, ApiError> {
    let options = &pve_state.vm(node, vmid)?.config;
    check_volumes(pve_state, node, options)?;
    let machine = forced_machine.or_else(|| options.get("machine"));
    machine::check(pve_state.release, node, machine)?;
    let mut warnings = firmware_warnings(pve_state.release, options);
    check_usb(pve_state, node, options)?;
    let devices = pci::choose(pve_state, guests, node, vmid, options)?;
    let host = pve_state.hosts.get(node);
    if let Some(host) = host {
        check_processors(host, options)?;
    }
    warnings.extend(thread_warnings(options));
    let exits = host.and_then(|host| missing_bridge(pve_state, node, host, vmid, options));
    Ok(StartCheck { devices, warnings, exits })
}

fn check_volumes(pve_state: &PveState, node: &str, options: &Config) -> Result<(), ApiError> {
    for drive in drive::drives(options) {
        if let DriveSource::Volume(volume) = drive.source() {
            storage::activate(pve_state, node, &volume)?;
        }
    }
    Ok(())
}

fn is_ovmf(options: &Config) -> bool {
    options.get("bios").is_some_and(|bios| bios == "ovmf")
}

fn firmware_warnings(release: Release, options: &Config) -> Vec<String> {
    if !is_ovmf(options) {
        return vec![];
    }
    let Some(disk) = options.get("efidisk0").and_then(|text| drive::Drive::parse("efidisk0", text))
    else {
        return vec!["no efidisk configured! Using temporary efivars disk.".to_owned()];
    };
    let has_keys = disk.get("pre-enrolled-keys").is_some_and(|value| value == "1");
    if release == Release::V9 && has_keys && disk.get("ms-cert") != Some("2023k") {
        return vec![
            "EFI disk without 'ms-cert=2023k' option, suggesting that not all UEFI 2023 certificates \
             from Microsoft are enrolled yet."
                .to_owned(),
        ];
    }
    vec![]
}

fn thread_warnings(options: &Config) -> Vec<String> {
    let single = options.get("scsihw").is_some_and(|kind| kind == "virtio-scsi-single");
    let ignored = |drive: &&drive::Drive| {
        drive.key.starts_with("scsi")
            && !single
            && drive.get("iothread").is_some_and(|value| value == "1")
    };
    let text = "iothread is only valid with virtio disk or virtio-scsi-single controller, ignoring";
    drive::drives(options).iter().filter(ignored).map(|_| text.to_owned()).collect()
}

fn check_usb(pve_state: &PveState, node: &str, options: &Config) -> Result<(), ApiError> {
    let format = schema::format(pve_state.release, FormatName::Usb);
    let mapped = options
        .iter()
        .filter(|(key, _)| key.starts_with("usb"))
        .filter_map(|(_, value)| format.parse(value).ok()?.get("mapping").map(str::to_owned));
    for mapping in mapped {
        let here = |entry: &String| entry.split(',').any(|part| part == format!("node={node}"));
        let known = pve_state.mappings.usb.get(&mapping);
        if !known.is_some_and(|known| known.entries.iter().any(here)) {
            return Err(ApiError::failed(format!("USB device mapping not found for '{mapping}'")));
        }
    }
    Ok(())
}

fn check_processors(host: &Host, options: &Config) -> Result<(), ApiError> {
    let number = |key: &str| options.get(key).and_then(|value| value.parse::<u64>().ok());
    let sockets = number("sockets").or_else(|| number("smp")).unwrap_or(1);
    let wanted = sockets.saturating_mul(number("cores").unwrap_or(1));
    let most = host.cores;
    if wanted > u64::from(most) {
        return Err(ApiError::failed(format!("MAX {most} vcpus allowed per VM on this node")));
    }
    Ok(())
}

/// Output of the network script if a bridge is missing; `None` if all bridges exist.
fn missing_bridge(
    pve_state: &PveState,
    node: &str,
    host: &Host,
    vmid: u32,
    options: &Config,
) -> Option<Vec<String>> {
    let format = schema::format(pve_state.release, FormatName::Net);
    let folder = match pve_state.release {
        Release::V8 => "/var/lib/qemu-server",
        Release::V9 => "/usr/libexec/qemu-server",
    };
    options.iter().filter(|(key, _)| is_net(key)).find_map(|(key, value)| {
        let fields = format.parse(value).ok()?;
        let bridge = fields.get("bridge")?;
        if host.bridges.iter().any(|known| known.name == bridge)
            || pve_state.vnets_on(node).any(|(known, _)| known == bridge)
        {
            return None;
        }
        let tap = format!("tap{vmid}i{}", key.trim_start_matches("net"));
        Some(vec![
            format!("bridge '{bridge}' does not exist"),
            format!(
                "kvm: -netdev type=tap,id={key},ifname={tap},script={folder}/pve-bridge,\
                 downscript={folder}/pve-bridgedown,vhost=on: network script {folder}/pve-bridge \
                 failed with status 512"
            ),
        ])
    })
}
