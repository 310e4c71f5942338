//! The first boot after an upgrade: it installs what was staged, and goes back to the old Talos where
//! the new one does not boot.

use std::sync::Arc;

use talmox_lab_environment::Work;

use super::super::simulation::Simulation;
use super::super::talos_state::Stage;
use super::installer::{STAGED, STAGED_OPTIONS, UPGRADE_TAG, preflight};

impl Simulation {
    /// What was installed last does not start: what was there before boots in its place.
    pub(super) fn fall_back(self: &Arc<Self>, vmid: u32, boot: u64) {
        let disk = self.look(|talos| {
            let node = talos.nodes.get(&vmid).filter(|node| node.boot == boot)?;
            node.system_disk.clone()
        });
        if let Some(disk) = disk {
            self.hypervisor.write_disk(&disk, |written| {
                std::mem::swap(&mut written.installed, &mut written.previous);
                written.meta.remove(&UPGRADE_TAG);
            });
        }
        self.power_cycle(vmid);
    }

    /// Installs what an upgrade left for this boot. True where the node boots anew for that.
    pub(super) async fn install_staged(self: &Arc<Self>, vmid: u32, boot: u64) -> bool {
        let known = self.look(|talos| {
            let node = talos.nodes.get(&vmid).filter(|node| node.boot == boot)?;
            Some((node.system_disk.clone()?, node.meta.get(&STAGED)?.clone()))
        });
        let Some((disk, image)) = known else { return false };
        self.hypervisor.write_disk(&disk, |written| {
            written.meta.remove(&STAGED);
            written.meta.remove(&STAGED_OPTIONS);
        });
        self.change_node(vmid, boot, |node| {
            node.meta.remove(&STAGED);
            node.meta.remove(&STAGED_OPTIONS);
        });
        self.set_stage(vmid, boot, Stage::Upgrading);
        self.environment.wait(Work::Install, &format!("node/{vmid}/install")).await;
        let Ok(image) = self.installer(vmid, &image) else { return false };
        let running = self.look(|talos| {
            let node = talos.nodes.get(&vmid)?;
            preflight(node, &image).is_ok().then(|| node.installed())
        });
        let Some(running) = running else { return false };
        self.put_onto_disk(&disk, running, &image);
        self.set_stage(vmid, boot, Stage::Rebooting);
        self.power_cycle(vmid);
        true
    }

    /// The boot went well: what was installed stays.
    pub(super) fn keep_installed(self: &Arc<Self>, vmid: u32, boot: u64) {
        let disk = self.change_node(vmid, boot, |node| {
            node.meta.remove(&UPGRADE_TAG)?;
            node.system_disk.clone()
        });
        if let Some(disk) = disk.flatten() {
            self.hypervisor.write_disk(&disk, |written| {
                written.meta.remove(&UPGRADE_TAG);
            });
        }
    }
}
