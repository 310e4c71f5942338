//! `MachineService.Upgrade`, which performs the whole upgrade in one call, and rollback.

use std::sync::Arc;

use talmox_lab_environment::Work;
use talmox_talos_api::proto::machine::UpgradeRequest;
use talmox_talos_api::server::Status;

use super::super::simulation::Simulation;
use super::super::talos_state::Stage;
use super::drain;
use super::installer::{STAGED, STAGED_OPTIONS, preflight};
use super::sequence_run::{STOP_PHASES, SequenceRun};
use crate::image::TalosImage;

impl Simulation {
    /// Pulls the image, checks the etcd quorum, and starts the upgrade. Returns the actor id of its events.
    pub(crate) async fn upgrade(
        self: &Arc<Self>,
        vmid: u32,
        boot: u64,
        request: UpgradeRequest,
    ) -> Result<String, Status> {
        let known = self.look(|talos| {
            let node = talos.nodes.get(&vmid).filter(|node| node.boot == boot)?;
            Some(node.system_disk.clone())
        });
        let disk = known.ok_or_else(|| Status::unavailable("the node is gone"))?;
        let Some(disk) = disk else {
            return Err(Status::failed_precondition("Talos is not installed"));
        };
        self.environment.wait(Work::Pull, &format!("node/{vmid}/pull")).await;
        let image = self.installer(vmid, &request.image).map_err(|why| {
            Status::unknown(format!(
                "error validating installer image \"{}\": {why}",
                request.image
            ))
        })?;
        if !request.force && !request.preserve {
            self.look(|talos| super::quorum_check::allows_upgrade(talos, vmid))?;
        }
        if request.stage {
            self.hypervisor.write_disk(&disk, |written| {
                written.meta.insert(STAGED, request.image.clone());
                written.meta.insert(STAGED_OPTIONS, "{}".to_owned());
            });
            let (actor, run) =
                SequenceRun::start(self, vmid, boot, "stageUpgrade", Stage::Upgrading)?;
            if let Some(run) = run {
                tokio::spawn(async move {
                    if run.phases(&[("cleanup", "stopAllPods"), ("dbus", "stopDBus")]).await
                        && run.phases(STOP_PHASES).await
                    {
                        run.reboot().await;
                    }
                });
            }
            return Ok(actor);
        }
        let (actor, run) = SequenceRun::start(self, vmid, boot, "upgrade", Stage::Upgrading)?;
        if let Some(run) = run {
            tokio::spawn(async move { run.upgrade(&image).await });
        }
        Ok(actor)
    }

    /// Sets the boot disk back to the Talos before the last upgrade.
    pub(crate) fn roll_back(self: &Arc<Self>, vmid: u32, boot: u64) -> Result<(), Status> {
        let known = self.look(|talos| {
            let node = talos.nodes.get(&vmid).filter(|node| node.boot == boot)?;
            Some((node.system_disk.clone(), node.installed()))
        });
        let (disk, running) = known.ok_or_else(|| Status::unavailable("the node is gone"))?;
        let disk = disk.ok_or_else(|| Status::failed_precondition("system disk not found"))?;
        let Some(previous) = self.hypervisor.written(&disk).previous else {
            return Err(Status::unknown("cannot rollback to \"B\", label does not exist"));
        };
        self.hypervisor.write_disk(&disk, |written| {
            written.installed = Some(previous);
            written.previous = Some(running);
        });
        self.reboot(vmid, boot, talmox_talos_api::proto::machine::reboot_request::Mode::Default)?;
        Ok(())
    }
}

impl SequenceRun {
    async fn upgrade(&self, image: &TalosImage) {
        if !self.phases(&[("denyNewServices", "denyNewServices")]).await
            || !drain::drain(self).await
            || !self.phases(&[("cleanup", "stopAllPods"), ("dbus", "stopDBus")]).await
            || !self.phases(&STOP_PHASES[..STOP_PHASES.len() - 1]).await
            || !self.open("upgrade", "upgrade")
        {
            return;
        }
        self.simulation
            .environment
            .wait(Work::Install, &format!("node/{}/install", self.vmid))
            .await;
        let checked = self.look(|node| {
            preflight(node, image).map(|()| (node.system_disk.clone(), node.installed()))
        });
        match checked {
            Some(Ok((Some(disk), running))) => self.simulation.write_to_disk(&disk, running, image),
            Some(Err(problem)) => {
                // The services are stopped and the volumes unmounted, so only a reboot restores them.
                let problem = format!("upgrade failed: installer failed: {problem}");
                self.report_failure("upgrade", "upgrade", &problem);
                self.reboot().await;
                return;
            }
            _ => return,
        }
        self.close("upgrade", "upgrade");
        let rest = [
            ("meta", "reloadMeta"),
            ("kexec", "kexecPrepare"),
            ("stopEverything", "stopAllServices"),
        ];
        if self.phases(&rest).await {
            self.reboot().await;
        }
    }
}
