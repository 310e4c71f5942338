//! From power on to maintenance, and on to a node that runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use talmox_lab_environment::Work;
use talmox_lab_environment::fault::BootSight;
use talmox_talos_config::Release;

use super::super::disk;
use super::super::hardware::Hardware;
use super::super::network::{Network, Sources, fallback_name};
use super::super::platform::PlatformData;
use super::super::simulation::Simulation;
use super::super::talos_state::Node;
use super::super::version::Version;
use super::super::written::{DiskKey, Written};
use super::acquire::{Acquired, Source, acquire};
use super::apply::run_mode;
use super::boot_fault::Outcome;
use super::installer::UPGRADE_TAG;
use super::life::Me;
use super::system::{self, Found, FoundTalos};
use super::ubuntu;
use crate::image::{Medium, Platform, TalosImage};

/// What a VM does from the moment it has power. It ends with that.
pub(in super::super) async fn play(simulation: Arc<Simulation>, vmid: u32) {
    let object = format!("node/{vmid}");
    simulation.environment.wait(Work::Firmware, &object).await;
    let Some(mut hardware) = simulation.hypervisor.hardware(vmid) else { return };
    disk::enumerate(&mut hardware.disks, &mut simulation.chance(&format!("disks/{vmid}")));
    let (hypervisor, machine) = (Arc::clone(&simulation.hypervisor), hardware.clone());
    let finding = tokio::task::spawn_blocking(move || {
        (system::find(&*hypervisor, &machine), system::cidata(&*hypervisor, &machine))
    });
    let Ok((found, files)) = finding.await else { return };
    match found {
        Found::Nothing | Found::Halted => {}
        Found::Ubuntu(image) => {
            ubuntu::play(&simulation, vmid, &hardware, &image, files.as_ref()).await;
        }
        Found::Talos(found) => {
            let FoundTalos { image, disk, written } = *found;
            let mut meta = image.meta.clone();
            meta.extend(written.meta.clone());
            let platform = PlatformData::find(&image, &hardware, &meta, files.as_ref());
            let has_drive = image.platform == Platform::Nocloud && files.is_some();
            let machine = Machine { hardware, image, disk, written, platform, has_drive, meta };
            simulation.hypervisor.attach(vmid);
            simulation.hypervisor.forget_agent(vmid);
            simulation.environment.wait(Work::Boot, &object).await;
            machine.run(simulation, vmid).await;
        }
    }
    // The power is still on, whatever is or is not on the screen.
    std::future::pending::<()>().await;
}

/// What is known of a machine before Talos has begun.
struct Machine {
    hardware: Hardware,
    image: TalosImage,
    disk: Option<DiskKey>,
    written: Written,
    platform: PlatformData,
    /// A drive that its platform reads: Proxmox's cloud-init, or a cidata volume.
    has_drive: bool,
    meta: BTreeMap<u8, String>,
}

impl Machine {
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
            (Source::State, saved.clone()),
            (Source::Embedded, embedded),
            (Source::Platform(&name), user_data),
        ];
        let mode = run_mode(self.image.platform, self.disk.is_some());
        let acquired = acquire(places, release, mode);
        let is_bare = saved.is_none();
        let reads_drive = self.has_drive && is_bare;
        let boot = self.register(&simulation, vmid, version);
        let me = Me { simulation: Arc::clone(&simulation), vmid, boot };
        // What was done to the VM while its firmware was at work.
        simulation.update_connectivity(vmid);
        me.tell_search();
        me.start_early_services().await;
        let loses_race = me.loses_race(reads_drive);
        match me.apply_faults(BootSight { is_bare, is_upgraded }).await {
            Outcome::Over => return,
            Outcome::GoesOn if loses_race => return me.stall(),
            Outcome::GoesOn | Outcome::Spared => {}
        }
        let needs_install = is_iso && saved.is_none();
        match acquired {
            Acquired::Config(config) => me.take(*config),
            Acquired::Nothing(part) => me.maintain(part.map(|part| *part)).await,
            Acquired::Broken(reason) => return me.despair(&reason),
        }
        me.tell_found();
        if needs_install {
            me.install().await;
            return;
        }
        if simulation.install_staged(vmid, boot).await {
            return;
        }
        me.start().await;
    }

    fn register(self, simulation: &Arc<Simulation>, vmid: u32, version: Version) -> u64 {
        let mut chance = simulation.chance(&format!("boot/{vmid}"));
        let mut bytes = [0; 16];
        chance.fill(&mut bytes);
        let fallback = fallback_name(&self.hardware.uuid);
        let state = self.written.state.clone().unwrap_or_default();
        let network = Network::of(&Sources {
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

/// A random UUID of these bytes.
pub(in super::super) fn uuid(bytes: &[u8; 16]) -> String {
    let mut bytes = *bytes;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}
