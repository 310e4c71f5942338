//! Install and upgrade calls of `LifecycleService`. They only run the installer, without etcd checks, drain or reboot.

use std::sync::Arc;

use talmox_lab_environment::Work;
use talmox_talos_api::server::Status;
use tokio::sync::mpsc;

use super::super::disk_data::DiskKey;
use super::super::simulation::Simulation;
use super::super::talos_state::Node;
use super::installer::{as_installed, preflight};
use crate::image::TalosImage;

/// Message of a running installer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InstallerMessage {
    Output(String),
    /// Exit code of the installer. This is the last message; a code other than 0 is a failure.
    Exit(i32),
}

/// Disk that an installer writes to.
enum InstallTarget {
    /// Boot disk of an installed machine.
    Upgrade(DiskKey),
    Install(DiskKey),
}

impl Simulation {
    /// Runs an installer that replaces the Talos of the next boot.
    pub(crate) fn start_upgrade(
        self: &Arc<Self>,
        vmid: u32,
        boot: u64,
        image: &str,
    ) -> Result<mpsc::Receiver<InstallerMessage>, Status> {
        let disk = self.look(|talos| talos.nodes.get(&vmid)?.system_disk.clone());
        let disk = disk.ok_or_else(|| Status::failed_precondition("machine is not installed"))?;
        self.run_installer(vmid, boot, image, InstallTarget::Upgrade(disk))
    }

    /// Runs an installer on a machine on which Talos is not installed yet.
    pub(crate) fn start_install(
        self: &Arc<Self>,
        vmid: u32,
        boot: u64,
        image: &str,
        device: &str,
    ) -> Result<mpsc::Receiver<InstallerMessage>, Status> {
        let is_installed = self
            .look(|talos| talos.nodes.get(&vmid).is_some_and(|node| node.system_disk.is_some()));
        if is_installed {
            return Err(Status::already_exists("machine is already installed"));
        }
        if device.is_empty() {
            return Err(Status::invalid_argument("destination disk is required"));
        }
        let disk = self.look(|talos| {
            let node = talos.nodes.get(&vmid)?;
            let disk = node.hardware.disks.iter().find(|disk| disk.is_at(device))?;
            Some(DiskKey {
                host: node.hardware.host.clone(),
                volume: disk.volume.clone()?,
                device: disk.device.clone(),
            })
        });
        let Some(disk) = disk else {
            let text = format!("invalid disk path: lstat {device}: no such file or directory");
            return Err(Status::invalid_argument(text));
        };
        self.run_installer(vmid, boot, image, InstallTarget::Install(disk))
    }

    fn run_installer(
        self: &Arc<Self>,
        vmid: u32,
        boot: u64,
        image: &str,
        target: InstallTarget,
    ) -> Result<mpsc::Receiver<InstallerMessage>, Status> {
        if image.is_empty() {
            return Err(Status::invalid_argument("installer image name is required"));
        }
        let is_pulled = self
            .change_node(vmid, boot, |node| {
                if node.is_installing {
                    return Err(Status::failed_precondition(
                        "another installation/upgrade is already in progress",
                    ));
                }
                node.is_installing = node.images.contains(image);
                Ok(node.is_installing)
            })
            .ok_or_else(|| Status::unavailable("the node is gone"))??;
        if !is_pulled {
            let what = if matches!(target, InstallTarget::Install(_)) {
                "installation"
            } else {
                "upgrade"
            };
            let text = format!("{what} failed: image \"{image}\": not found");
            return Err(Status::internal(text));
        }
        let (sender, receiver) = mpsc::channel(8);
        let (simulation, image) = (Arc::clone(self), image.to_owned());
        tokio::spawn(async move {
            let code = simulation.install(vmid, &image, &target, &sender).await;
            simulation.change_node(vmid, boot, |node| node.is_installing = false);
            // The installation is done at this point, so it does not matter if the client has disconnected.
            drop(sender.send(InstallerMessage::Exit(code)).await);
        });
        Ok(receiver)
    }

    async fn install(
        self: &Arc<Self>,
        vmid: u32,
        image: &str,
        target: &InstallTarget,
        sender: &mpsc::Sender<InstallerMessage>,
    ) -> i32 {
        let say =
            |text: String| async move { drop(sender.send(InstallerMessage::Output(text)).await) };
        say(format!("running Talos installer {}", tag(image))).await;
        let found = match self.installer(vmid, image) {
            Ok(found) => found,
            Err(problem) => {
                say(format!("error: {problem}")).await;
                return 1;
            }
        };
        if let Err(problem) = self.check(vmid, target, &found) {
            say(format!("pre-flight checks failed: {problem}")).await;
            return 1;
        }
        say("all pre-flight checks successful".to_owned()).await;
        self.environment.wait(Work::Install, &format!("node/{vmid}/install")).await;
        let running = self.look(|talos| talos.nodes.get(&vmid).map(Node::installed));
        let Some(running) = running else { return 1 };
        match target {
            InstallTarget::Upgrade(disk) => self.write_to_disk(disk, running, &found),
            InstallTarget::Install(disk) => self.hypervisor.write_disk(disk, |written| {
                written.is_blank = false;
                written.installed = Some(as_installed(&found, &running.platform));
            }),
        }
        say("installation of talos complete".to_owned()).await;
        0
    }

    fn check(&self, vmid: u32, target: &InstallTarget, image: &TalosImage) -> Result<(), String> {
        if matches!(target, InstallTarget::Install(_)) {
            return Ok(());
        }
        let checked = self.look(|talos| talos.nodes.get(&vmid).map(|node| preflight(node, image)));
        checked.unwrap_or_else(|| Err("the node is gone".to_owned()))
    }
}

/// Tag of an image reference: the text after the last colon.
fn tag(image: &str) -> &str {
    image.rsplit(':').next().unwrap_or(image)
}
