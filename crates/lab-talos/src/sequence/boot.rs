//! Boot of a node, from power-on to maintenance mode or to the running node.

use std::collections::BTreeMap;
use std::sync::Arc;

use talmox_lab_environment::Work;
use talmox_lab_environment::fault::BootFacts;
use talmox_talos_config::Release;

use super::super::disk;
use super::super::disk_data::{DiskKey, Written};
use super::super::hardware::Hardware;
use super::super::network::{Network, NetworkInputs, fallback_name};
use super::super::platform::PlatformData;
use super::super::simulation::Simulation;
use super::super::talos_state::Node;
use super::super::version::Version;
use super::acquire_config::{AcquiredConfig, ConfigSource, acquire};
use super::apply::run_mode;
use super::boot_device::{self, BootDevice, BootableTalos};
use super::boot_fault::BootFaultOutcome;
use super::installer::UPGRADE_TAG;
use super::node_boot::NodeBoot;
use super::ubuntu;
use crate::image::{Medium, Platform, TalosImage};

/// Runs a VM, starting with its power-on. The task is aborted at power-off.
pub(in super::super) async fn run_guest(simulation: Arc<Simulation>, vmid: u32) {
    let object = format!("node/{vmid}");
    simulation.environment.wait(Work::Firmware, &object).await;
    let Some(mut hardware) = simulation.hypervisor.hardware(vmid) else { return };
    disk::enumerate(&mut hardware.disks, &mut simulation.chance(&format!("disks/{vmid}")));
    let (hypervisor, machine) = (Arc::clone(&simulation.hypervisor), hardware.clone());
    let finding = tokio::task::spawn_blocking(move || {
        (
            boot_device::find_boot_device(&*hypervisor, &machine),
            boot_device::cidata(&*hypervisor, &machine),
        )
    });
    let Ok((found, files)) = finding.await else { return };
    match found {
        BootDevice::Nothing | BootDevice::Halted => {}
        BootDevice::Ubuntu(image) => {
            ubuntu::run_guest(&simulation, vmid, &hardware, &image, files.as_ref()).await;
        }
        BootDevice::Talos(found) => {
            let BootableTalos { image, disk, written } = *found;
            let mut meta = image.meta.clone();
            meta.extend(written.meta.clone());
            let platform = PlatformData::find(&image, &hardware, &meta, files.as_ref());
            let has_drive = image.platform == Platform::Nocloud && files.is_some();
            let machine =
                BootingMachine { hardware, image, disk, written, platform, has_drive, meta };
            simulation.hypervisor.attach(vmid);
            simulation.hypervisor.forget_agent(vmid);
            simulation.environment.wait(Work::Boot, &object).await;
            machine.run(simulation, vmid).await;
        }
    }
    // The VM stays powered on, even if it cannot boot from any device.
    std::future::pending::<()>().await;
}

/// Machine before the start of Talos.
struct BootingMachine {
    hardware: Hardware,
    image: TalosImage,
    disk: Option<DiskKey>,
    written: Written,
    platform: PlatformData,
    /// Whether the machine has a volume for its platform: the cloud-init drive of Proxmox, or another cidata volume.
    has_drive: bool,
    meta: BTreeMap<u8, String>,
}

impl BootingMachine {
    async fn run(self, simulation: Arc<Simulation>, vmid: u32) {
        let Some(version) = Version::parse(&self.image.version) else { return };
        let release = Release::of(&self.image.version).unwrap_or_default();
        let is_iso = self.image.medium == Medium::Iso;
        let is_upgraded = self.meta.contains_key(&UPGRADE_TAG);
        let saved = self.written.state.as_ref().and_then(|state| state.config.clone());
        let user_data = self.platform.user_data.clone();
        let embedded = self.image.schematic.customization.embedded_machine_configuration.clone();
        let embedded = Some(embedded).filter(|text| !text.is_empty());
        let embedded = embedded.filter(|_| version.is_at_least(12));
        let name = self.platform.name.clone();
        let places = [
            (ConfigSource::State, saved.clone()),
            (ConfigSource::Embedded, embedded),
            (ConfigSource::Platform(&name), user_data),
        ];
        let mode = run_mode(self.image.platform, self.disk.is_some());
        let acquired = acquire(places, release, mode);
        let is_bare = saved.is_none();
        let reads_drive = self.has_drive && is_bare;
        let boot = self.register(&simulation, vmid, version);
        let node_boot = NodeBoot { simulation: Arc::clone(&simulation), vmid, boot };
        // The VM may have changed while the firmware ran.
        simulation.update_connectivity(vmid);
        node_boot.report_start();
        node_boot.start_early_services().await;
        let stalls_by_chance = node_boot.stalls_by_chance(reads_drive);
        match node_boot.apply_faults(BootFacts { is_bare, is_upgraded }).await {
            BootFaultOutcome::Ended => return,
            BootFaultOutcome::Continues if stalls_by_chance => return node_boot.stall(),
            BootFaultOutcome::Continues | BootFaultOutcome::DoesNotStall => {}
        }
        let needs_install = is_iso && saved.is_none();
        match acquired {
            AcquiredConfig::Config(config) => node_boot.use_config(*config),
            AcquiredConfig::Nothing(part) => {
                node_boot.wait_in_maintenance(part.map(|part| *part)).await;
            }
            AcquiredConfig::Broken(reason) => return node_boot.stop_with_invalid_config(&reason),
        }
        node_boot.report_config_found();
        if needs_install {
            node_boot.install().await;
            return;
        }
        if simulation.install_staged(vmid, boot).await {
            return;
        }
        node_boot.start().await;
    }

    fn register(self, simulation: &Arc<Simulation>, vmid: u32, version: Version) -> u64 {
        let mut chance = simulation.chance(&format!("boot/{vmid}"));
        let mut bytes = [0; 16];
        chance.fill(&mut bytes);
        let fallback = fallback_name(&self.hardware.uuid);
        let state = self.written.state.clone().unwrap_or_default();
        let network = Network::of(&NetworkInputs {
            hardware: &self.hardware,
            platform: &self.platform,
            cached: &state.platform_addresses,
            config: None,
            dhcp: simulation.settings.dhcp.as_ref(),
            fallback: &fallback,
        });
        let etcd = self.written.ephemeral.and_then(|ephemeral| ephemeral.etcd);
        let clock = simulation.clock();
        simulation.change(|talos| {
            talos.boots += 1;
            let boot = talos.boots;
            let node = Node {
                boot_id: uuid(&bytes),
                system_disk: self.disk,
                platform: self.platform,
                meta: self.meta,
                network,
                etcd,
                ..Node::new(vmid, boot, self.hardware, self.image, version, clock)
            };
            talos.nodes.insert(vmid, node);
            boot
        })
    }
}

/// Random UUID (version 4) that is built from these bytes.
pub(in super::super) fn uuid(bytes: &[u8; 16]) -> String {
    let mut bytes = *bytes;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}
