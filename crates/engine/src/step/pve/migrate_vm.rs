//! Moves a VM to another host.

use talmox_plan::plan::{MigrateVm, OwnVm};
use talmox_pve::api::qemu::{self, Migrate, MigrateCheck, Vm};

use super::super::{Done, ErrorKind, RunStep, StepCode, StepContext, StepError};
use super::earlier::Earlier;
use super::error;
use super::power::looking;
use super::vm::{FoundVm, VmAtId, look, unexpected_vm};
use crate::timeouts::PROXMOX_PAUSE;

/// Tasks that migrate a VM.
const MIGRATIONS: &[&str] = &["qmigrate", "hamigrate"];

impl RunStep for MigrateVm {
    /// Migrates the VM, and reads it again on the other host. After a lost answer or a killed run, a task may still be
    /// running, and the step waits for it.
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        let Self { own, target, .. } = self;
        let source = context.vm_cache.last_seen(&own.vm);
        let mut earlier = Earlier::new(&source, MIGRATIONS);
        let mut done = Done::Already;
        loop {
            let FoundVm { vm, .. } = read(own, context).await?;
            if vm.node == *target {
                context.vm_cache.is_on(&vm);
                return Ok(done);
            }
            let doing = format!("migrate VM {} from {} to {target}", vm.vmid, vm.node);
            // A task that has just started does not lock the VM yet.
            if earlier.follow(&doing, context).await? {
                done = Done::Acted;
                continue;
            }
            let is_running = context.ask(&qemu::current(&vm), &looking(&vm)).await?.running;
            let check = context.ask(&qemu::check_migrate(&vm, Some(target)), &doing).await?;
            if let Some(obstacle) = obstacle(self, &vm, is_running, &check) {
                return Err(obstacle);
            }
            let is_online = self.is_online && is_running;
            let migrate =
                Migrate { target: target.clone(), online: is_online, local_disks_to: None };
            match context.try_task(&qemu::migrate(&vm, &migrate)).await? {
                Ok(ended) => {
                    if ended.upid.kind() == "hamigrate" {
                        await_ha(self, context).await?;
                    }
                    done = Done::Acted;
                    if read(own, context).await?.vm.node != *target {
                        let text =
                            format!("{doing}: Proxmox reported success, but the VM did not move");
                        return Err(StepError::retry(StepCode::ChangeNotVisible, text));
                    }
                }
                // A migration of an earlier run may still be running.
                Err(error) if error.is_locked() && earlier.follow(&doing, context).await? => {
                    done = Done::Acted;
                }
                Err(error) => return Err(error::of(&doing, error)),
            }
        }
    }
}

/// Reads the VM on its current host. A cached config does not show the current host.
async fn read(own: &OwnVm, context: &StepContext) -> Result<FoundVm, StepError> {
    context.vm_cache.take(own.vm.vmid);
    match look(own, context).await? {
        VmAtId::Owned(found) => Ok(found),
        sight => Err(unexpected_vm(own, &sight)),
    }
}

/// Reason why Proxmox cannot migrate the VM to the target host. Proxmox itself reports most of these reasons only in the log
/// of a failed task.
fn obstacle(
    step: &MigrateVm,
    vm: &Vm,
    is_running: bool,
    check: &MigrateCheck,
) -> Option<StepError> {
    let MigrateVm { target, is_online, .. } = step;
    let impossible = |why: String, hint: &str| {
        let text = format!("VM {} cannot be migrated to {target}: {why}", vm.vmid);
        Some(StepError::failed(StepCode::MigrationImpossible, text).hint(hint))
    };
    if is_running && !is_online {
        let hint = "run the same command: the next plan stops the VM before it is migrated";
        return impossible("it runs, and must be stopped first".to_owned(), hint);
    }
    // A stopped VM with a mapped device gets the mapped device of the other host.
    let is_bound = |key: &&String| is_running || !check.mapped_resources.contains(key);
    let devices: Vec<&str> =
        check.local_resources.iter().filter(is_bound).map(String::as_str).collect();
    if !devices.is_empty() {
        let hint = "keep the node on its host, or remove the device; a PCI device with a resource mapping (`gpu: {mapping: NAME}`) on \
                    both hosts can be used while the VM is stopped";
        return impossible(format!("it uses devices of its host: {}", devices.join(", ")), hint);
    }
    if is_running {
        let disks = check.local_disks.iter().filter(|disk| !disk.cdrom);
        let disks: Vec<String> = disks.map(|disk| disk.volume.to_string()).collect();
        if !disks.is_empty() {
            let hint = "run the same command: the next plan stops the VM before it is migrated; or move its disks to a shared storage";
            let why = format!("it runs, and has disks on local storages: {}", disks.join(", "));
            return impossible(why, hint);
        }
    } else if !check.allowed_nodes.contains(target) {
        let hint = "make the storages and resource mappings of the VM available on that host, or choose another host";
        return impossible("a storage or a mapped device is missing there".to_owned(), hint);
    }
    None
}

/// Waits for the HA manager, which migrates the VM in one of its next rounds.
async fn await_ha(step: &MigrateVm, context: &StepContext) -> Result<(), StepError> {
    let MigrateVm { own, target, .. } = step;
    let vmid = own.vm.vmid;
    context.waits_for(format!("the HA manager to migrate VM {vmid} to {target}"));
    loop {
        // During a migration, the VM is on neither host for a moment.
        match read(own, context).await {
            Ok(found) if found.vm.node == *target => return Ok(()),
            Ok(_) | Err(StepError { kind: ErrorKind::Retry { .. }, .. }) => {}
            Err(error) => return Err(error),
        }
        if context.deadline.has_passed() {
            let text = format!("the HA manager did not migrate VM {vmid} to {target} in time");
            return Err(StepError::failed(StepCode::Timeout, text)
                .hint("run `ha-manager status` on a host"));
        }
        context.pause_to_see(PROXMOX_PAUSE).await?;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use talmox_plan::ownership::{ClusterMark, Identity, SmbiosUuid};
    use talmox_pve::api::qemu::LocalDisk;
    use talmox_pve::id::VmId;

    use super::*;

    /// Reason why the VM cannot be migrated to pve2.
    fn reason(is_online: bool, is_running: bool, check: &MigrateCheck) -> Option<String> {
        let identity = Identity {
            cluster: ClusterMark::of("test"),
            node: "worker-1".to_owned(),
            uuid: SmbiosUuid::of("test", "worker-1"),
        };
        let vm = Vm::new(&"pve1".parse().unwrap(), VmId::new(300).unwrap());
        let step = MigrateVm {
            own: OwnVm { vm: vm.clone(), identity },
            target: "pve2".parse().unwrap(),
            is_online,
            deadline: Duration::from_mins(1),
        };
        let error = obstacle(&step, &vm, is_running, check)?;
        assert_eq!(error.code, StepCode::MigrationImpossible);
        Some(error.message.replace("VM 300 cannot be migrated to pve2: ", ""))
    }

    #[test]
    fn devices_and_local_disks_tie_a_vm_to_its_host() {
        let disk = |cdrom: bool| LocalDisk {
            volume: "local-lvm:vm-300-disk-0".parse().unwrap(),
            size: None,
            cdrom,
        };
        let free = MigrateCheck {
            running: true,
            allowed_nodes: vec!["pve2".parse().unwrap()],
            ..MigrateCheck::default()
        };
        assert_eq!(reason(true, true, &free), None);
        assert_eq!(reason(true, false, &free), None, "it was stopped meanwhile");
        let running = "it runs, and must be stopped first";
        assert_eq!(reason(false, true, &free).as_deref(), Some(running));

        let mapped = MigrateCheck {
            local_resources: vec!["hostpci0".to_owned()],
            mapped_resources: vec!["hostpci0".to_owned()],
            ..free.clone()
        };
        let device = "it uses devices of its host: hostpci0";
        assert_eq!(reason(true, true, &mapped).as_deref(), Some(device));
        assert_eq!(reason(false, false, &mapped), None);
        let raw = MigrateCheck { mapped_resources: vec![], ..mapped };
        assert_eq!(reason(false, false, &raw).as_deref(), Some(device));

        let cloudinit = MigrateCheck { local_disks: vec![disk(true)], ..free.clone() };
        assert_eq!(reason(true, true, &cloudinit), None);
        let local = MigrateCheck { local_disks: vec![disk(false)], ..free.clone() };
        let disks = "it runs, and has disks on local storages: local-lvm:vm-300-disk-0";
        assert_eq!(reason(true, true, &local).as_deref(), Some(disks));
        assert_eq!(reason(false, false, &local), None);

        let nowhere = MigrateCheck { allowed_nodes: vec![], ..free };
        let missing = "a storage or a mapped device is missing there";
        assert_eq!(reason(false, false, &nowhere).as_deref(), Some(missing));
        assert_eq!(reason(true, true, &nowhere), None, "only reported for a stopped VM");
    }
}
