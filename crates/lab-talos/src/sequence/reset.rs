//! Reset of a node: partitions and disks are wiped, then the node reboots or powers off.

use std::sync::Arc;

use talmox_talos_api::proto::machine::ResetRequest;
use talmox_talos_api::proto::machine::reset_request::WipeMode;
use talmox_talos_api::server::Status;

use super::super::disk_data::{DiskKey, Written};
use super::super::simulation::Simulation;
use super::super::talos_state::{Node, Stage};
use super::drain;
use super::sequence_run::{STOP_PHASES, SequenceRun};

/// Labels of the system partitions that a reset can wipe.
const LABELS: [&str; 7] = ["STATE", "EPHEMERAL", "META", "EFI", "BOOT", "BIOS", "IMAGECACHE"];

impl Simulation {
    /// Starts a reset, and returns the actor id of its events.
    pub(crate) fn reset(
        self: &Arc<Self>,
        vmid: u32,
        boot: u64,
        request: ResetRequest,
    ) -> Result<String, Status> {
        let checked = self.look(|talos| {
            let node = talos.nodes.get(&vmid).filter(|node| node.boot == boot)?;
            Some(check(node, &request))
        });
        let disks = checked.ok_or_else(|| Status::unavailable("the node is gone"))??;
        let (actor, run) = SequenceRun::start(self, vmid, boot, "reset", Stage::Resetting)?;
        if let Some(run) = run {
            tokio::spawn(async move { run.reset(&request, &disks).await });
        }
        Ok(actor)
    }
}

/// User disks that the request wipes. The error is the reason why the request is rejected.
fn check(node: &Node, request: &ResetRequest) -> Result<Vec<DiskKey>, Status> {
    let mode = request.mode();
    let unknown = |text: String| Err(Status::unknown(text));
    if !request.user_disks_to_wipe.is_empty() && mode == WipeMode::SystemDisk {
        return unknown("reset failed: invalid input, wipe mode SYSTEM_DISK doesn't support UserDisksToWipe parameter".to_owned());
    }
    let mut disks = vec![];
    for device in &request.user_disks_to_wipe {
        let problem = |text: &str| format!("reset user disk failed: device {device} {text}");
        let found = node.hardware.disks.iter().find(|disk| disk.device == *device);
        let Some(disk) = found else { return unknown(problem("wasn't found")) };
        if disk.is_cdrom {
            return unknown(problem("is readonly"));
        }
        if node.system_disk.as_ref().is_some_and(|system| system.device == disk.device) {
            return unknown(problem("is the system disk"));
        }
        disks.extend(disk.volume.clone().map(|volume| DiskKey {
            host: node.hardware.host.clone(),
            volume,
            device: disk.device.clone(),
        }));
    }
    if request.system_partitions_to_wipe.is_empty() {
        return Ok(disks);
    }
    if mode == WipeMode::UserDisks {
        return unknown("reset failed: invalid input, wipe mode USER_DISKS doesn't support SystemPartitionsToWipe parameter".to_owned());
    }
    for partition in &request.system_partitions_to_wipe {
        let label = &partition.label;
        if !LABELS.contains(&label.as_str()) {
            return unknown(format!(
                "failed to get volume status with label \"{label}\": resource VolumeStatuses.block.talos.dev(runtime/{label}@undefined) doesn't exist"
            ));
        }
    }
    Ok(disks)
}

impl SequenceRun {
    async fn reset(&self, request: &ResetRequest, disks: &[DiskKey]) {
        if request.graceful && !drain::drain(self).await {
            return;
        }
        let clean_up = if request.graceful { "removeAllPods" } else { "stopAllPods" };
        if !self.phases(&[("cleanup", clean_up), ("dbus", "stopDBus")]).await {
            return;
        }
        let leaves = request.graceful && self.look(Node::is_control_plane).unwrap_or_default();
        if leaves {
            self.open("leave", "leaveEtcd");
            if let Err(problem) = super::super::etcd::leave(&self.simulation, self.vmid, self.boot)
            {
                let problem = format!("failed to leave cluster: {}", problem.message());
                self.fail("leave", "leaveEtcd", &problem);
                return;
            }
            self.close("leave", "leaveEtcd");
        }
        if !self.phases(&[("preReset", "sendResetSignal")]).await || !self.phases(STOP_PHASES).await
        {
            return;
        }
        let has_labels = !request.system_partitions_to_wipe.is_empty();
        let (phase, task) = if has_labels {
            ("resetSpec", "resetSystemDiskSpec")
        } else {
            ("reset", "resetSystemDisk")
        };
        if !self.phases(&[("forceCleanup", "forceCleanup")]).await || !self.open(phase, task) {
            return;
        }
        let system = self.look(|node| node.system_disk.clone()).flatten();
        if let Some(system) = system.filter(|_| request.mode() != WipeMode::UserDisks) {
            self.simulation.hypervisor.write_disk(&system, |written| wipe(written, request));
        }
        for disk in disks {
            self.simulation.hypervisor.write_disk(disk, |written| *written = blank());
        }
        self.close(phase, task);
        if request.reboot { self.reboot().await } else { self.shut_down().await }
    }
}

fn blank() -> Written {
    Written { is_blank: true, ..Written::default() }
}

/// Wipes the system partitions in the request, or all partitions if the request lists none.
fn wipe(written: &mut Written, request: &ResetRequest) {
    if request.system_partitions_to_wipe.is_empty() {
        *written = blank();
        return;
    }
    let named = request.system_partitions_to_wipe.iter().filter(|partition| partition.wipe);
    for partition in named {
        match partition.label.as_str() {
            "STATE" => written.state = None,
            "EPHEMERAL" => written.ephemeral = None,
            "META" => written.meta.clear(),
            // Without these partitions, the machine cannot boot from the disk: they contain the boot loader and the kernel.
            "EFI" | "BOOT" | "BIOS" => written.is_blank = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use talmox_talos_api::proto::machine::ResetPartitionSpec;

    use super::super::super::disk_data::{Ephemeral, SavedState};
    use super::*;

    #[test]
    fn labels_select_the_wiped_partitions() {
        let label = |label: &str| ResetPartitionSpec { label: label.to_owned(), wipe: true };
        let full = Written {
            state: Some(SavedState::default()),
            ephemeral: Some(Ephemeral::default()),
            meta: [(10, "x".to_owned())].into(),
            ..Written::default()
        };
        let request = ResetRequest {
            system_partitions_to_wipe: vec![label("STATE"), label("EPHEMERAL")],
            ..ResetRequest::default()
        };
        let mut written = full.clone();
        wipe(&mut written, &request);
        assert!(written.state.is_none() && written.ephemeral.is_none() && !written.is_blank);
        assert_eq!(written.meta.len(), 1);
        let mut written = full;
        wipe(&mut written, &ResetRequest::default());
        assert_eq!(written, blank());
    }
}
