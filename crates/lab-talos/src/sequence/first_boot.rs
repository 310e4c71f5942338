//! First boot after an upgrade. The boot installs a staged image. If the new Talos does not boot, the node reverts to the
//! previous Talos.

use std::sync::Arc;

use talmox_lab_environment::Work;

use super::super::simulation::Simulation;
use super::super::talos_state::Stage;
use super::installer::{STAGED, STAGED_OPTIONS, UPGRADE_TAG, preflight};

impl Simulation {
    /// Reverts to the previous Talos, because the installed Talos does not boot.
    pub(super) fn revert(self: &Arc<Self>, vmid: u32, boot: u64) {
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

    /// Installs the image that an upgrade staged for this boot. Returns true if the node reboots because of the installation.
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
        self.write_to_disk(&disk, running, &image);
        self.set_stage(vmid, boot, Stage::Rebooting);
        self.power_cycle(vmid);
        true
    }

    /// Marks the installed Talos as working, after a successful boot.
    pub(super) fn confirm_installed(self: &Arc<Self>, vmid: u32, boot: u64) {
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
