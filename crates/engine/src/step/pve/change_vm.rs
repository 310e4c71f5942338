//! Changes the options of a VM that exists.

use talmox_plan::ownership::{Marker, rebased_description};
use talmox_plan::plan::ChangeVm;
use talmox_pve::api::pool::{self, Members};
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::config::{VmChange, VmConfig, VmOptions, drift};
use talmox_pve::id::{DiskSlot, PoolId};
use talmox_pve::property::{Drive, Tags};

use super::super::{Done, ErrorKind, RunStep, StepContext, StepError};
use super::earlier::Earlier;
use super::put_config::{PutError, try_put, try_put_in_task};
use super::tags::{self, TagsEnd};
use super::vm::{FoundVm, owned_vm, see_again};

/// Tasks that change the config of a VM.
const CHANGES: &[&str] = &["qmconfig"];

impl RunStep for ChangeVm {
    /// Sets the options that differ, in one change that is conditional on the digest of the config just read. If the run is
    /// killed between the requests, the remaining options still differ, and the next plan contains this step again.
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        let doing = format!("change VM {}", self.own.vm.vmid);
        // A task of an earlier attempt or run may still be creating a disk, which the config does not show yet.
        if context.has_started_task() || self.set.iter().any(|(key, _)| is_drive(key)) {
            let vm = context.vm_cache.last_seen(&self.own.vm);
            let mut earlier = Earlier::new(&vm, CHANGES);
            while earlier.follow(&doing, context).await? {
                context.vm_cache.take(vm.vmid);
            }
        }
        let FoundVm { vm, mut config } = owned_vm(&self.own, context).await?;
        let mut done = Done::Already;
        // The pool is set first, because it may give the token its rights on the VM.
        if let Some(id) = &self.pool
            && put_in_pool(id, &vm, context).await?
        {
            done = Done::Acted;
        }
        let desired = self.set.get("tags").map(Tags::parse);
        let tags = match &desired {
            Some(tags) => tags::settle(&vm, tags, &config, context).await?,
            None => TagsEnd::Allowed,
        };
        if tags == TagsEnd::Set {
            done = Done::Acted;
            config = see_again(&self.own, &vm, context).await?.config;
            // The next change makes the cached config outdated.
            context.vm_cache.take(vm.vmid);
        }
        let change = change(self, &config, tags == TagsEnd::Rejected);
        if !change.set.is_empty() || !change.delete.is_empty() {
            put(&vm, &change, desired.as_ref(), &config, context).await?;
            done = Done::Acted;
        }
        // An earlier attempt whose answer was lost may have made the change.
        if done == Done::Acted || context.attempt > 1 {
            note_pending(self, &vm, context).await?;
        }
        Ok(done)
    }
}

/// Moves the VM to its pool. Returns false if it is in the pool already.
async fn put_in_pool(id: &PoolId, vm: &Vm, context: &StepContext) -> Result<bool, StepError> {
    let members = context.ask(&pool::get(id), &format!("read the pool {id}")).await?;
    if members.guests.contains(&vm.vmid) {
        return Ok(false);
    }
    let guests = Members { guests: vec![vm.vmid], ..Members::default() };
    let doing = format!("move VM {} to the pool {id}", vm.vmid);
    context.change(&pool::add(id, &guests, true), &doing).await?;
    Ok(true)
}

async fn put(
    vm: &Vm,
    change: &VmChange,
    tags: Option<&Tags>,
    config: &VmConfig,
    context: &StepContext,
) -> Result<(), StepError> {
    let doing = format!("change VM {} on {}", vm.vmid, vm.node);
    let creates_disk = change.set.iter().any(|(key, _)| is_drive(key));
    let sent = if creates_disk {
        try_put_in_task(vm, change, &doing, context).await?
    } else {
        try_put(vm, change, &doing, context).await?
    };
    match (sent, tags) {
        (Ok(()), _) => Ok(()),
        (Err(PutError { rejection: Some(reason), error }), Some(tags)) => {
            tags::forbid(tags, config, reason, context).await;
            Err(StepError { kind: ErrorKind::Retry { after: None }, ..error })
        }
        (Err(PutError { error, .. }), _) => Err(error),
    }
}

fn is_drive(key: &str) -> bool {
    key.parse::<DiskSlot>().is_ok()
}

/// The options of the step that the VM does not have yet.
///
/// Setting a drive replaces the drive in its slot. So a drive is set only if its slot is empty, or if the slot has the same
/// volume with other options. No second cloud-init drive is set, because Proxmox rejects it. A drive is never deleted,
/// because its volume may hold data.
fn change(step: &ChangeVm, config: &VmConfig, are_tags_rejected: bool) -> VmChange {
    let mut set = VmOptions::new();
    let desired = rebased(&step.set, config);
    let desired = if are_tags_rejected { noting_rejection(&desired, config) } else { desired };
    for differs in drift(&desired, config) {
        if are_tags_rejected && differs.key == "tags" {
            continue;
        }
        let is_taken =
            differs.found.as_deref().is_some_and(|found| !has_same_volume(&differs.desired, found))
                || (Drive::parse(&differs.desired).is_cloudinit() && config.cloudinit().is_some());
        if !(is_drive(&differs.key) && is_taken) {
            set = set.set(&differs.key, &differs.desired);
        }
    }
    let may_go = |key: &&String| config.get(key).is_some() && !is_drive(key);
    VmChange {
        set,
        delete: step.delete.iter().filter(may_go).cloned().collect(),
        digest: config.digest(),
        ..VmChange::default()
    }
}

/// Whether both values of a drive name the same volume, so that only the options of the drive differ.
fn has_same_volume(desired: &str, found: &str) -> bool {
    let (desired, found) = (Drive::parse(desired), Drive::parse(found));
    desired.volume_id().is_some() && desired.volume_id() == found.volume_id()
}

/// The same options, with the planned notes in the current description: a user may have edited the notes since the plan was
/// made.
fn rebased(set: &VmOptions, config: &VmConfig) -> VmOptions {
    let planned = set.get("description");
    match planned.and_then(|planned| rebased_description(planned, config.description())) {
        Some(text) => set.clone().description(&text),
        None => set.clone(),
    }
}

/// The same options, with a marker that shows later plans that the tags cannot be set. The rejected tags are not recorded as
/// tags of talmox.
fn noting_rejection(set: &VmOptions, config: &VmConfig) -> VmOptions {
    let text = set.get("description").unwrap_or_else(|| config.description());
    let own_tags = Marker::find(config.description()).map(|marker| marker.own_tags);
    let own_tags = own_tags.unwrap_or_default();
    let noted = Marker::find(text)
        .and_then(|marker| Marker { are_tags_rejected: true, own_tags, ..marker }.replace_in(text));
    match noted {
        Some(text) => set.clone().description(&text),
        None => set.clone(),
    }
}

/// Reports the options that a running VM uses only after its next start.
async fn note_pending(step: &ChangeVm, vm: &Vm, context: &StepContext) -> Result<(), StepError> {
    let doing = format!("read the pending options of VM {}", vm.vmid);
    let pending = context.ask(&qemu::pending(vm), &doing).await?;
    let is_of_step =
        |key: &str| step.set.get(key).is_some() || step.delete.iter().any(|deleted| deleted == key);
    let left = pending.into_iter().filter(|option| option.pending.is_some());
    let left: Vec<String> = left.map(|option| option.key).filter(|key| is_of_step(key)).collect();
    if !left.is_empty() {
        context.note(format!(
            "pending until VM {} is stopped and started: {}",
            vm.vmid,
            left.join(", ")
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use talmox_plan::ownership::{ClusterMark, Identity, SmbiosUuid};
    use talmox_plan::plan::OwnVm;
    use talmox_pve::id::VmId;

    use super::*;

    fn step(set: VmOptions, delete: &[&str]) -> ChangeVm {
        let identity = Identity {
            cluster: ClusterMark::of("test"),
            node: "worker-1".to_owned(),
            uuid: SmbiosUuid::of("test", "worker-1"),
        };
        let vm = Vm::new(&"pve1".parse().unwrap(), VmId::new(300).unwrap());
        ChangeVm {
            own: OwnVm { vm, identity },
            set,
            delete: delete.iter().map(|&key| key.to_owned()).collect(),
            pool: None,
            deadline: Duration::from_mins(1),
        }
    }

    fn config(entries: &[(&str, &str)]) -> VmConfig {
        VmConfig::new(entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn only_differences_are_sent_and_no_drive_is_replaced_or_deleted() {
        let found = config(&[
            ("cores", "2"),
            ("memory", "2048"),
            ("scsi0", "local-lvm:vm-300-disk-0,size=40G"),
            ("unused0", "local-lvm:vm-300-disk-7"),
            ("ide2", "local-lvm:vm-300-cloudinit,media=cdrom"),
            ("net1", "virtio=BC:24:11:00:00:02,bridge=vmbr0"),
            ("digest", "ab"),
        ]);
        let set = VmOptions::new()
            .cores(2)
            .memory_mib(4096)
            .set("scsi0", "local-lvm:80,ssd=1")
            .set("scsi1", "local-lvm:10")
            .set("ide0", "local-lvm:cloudinit");
        let delete = ["net1", "net2", "hostpci0", "scsi0", "unused0", "ide2"];
        let change = change(&step(set, &delete), &found, false);
        let sent: Vec<(&str, &str)> = change.set.iter().collect();
        assert_eq!(sent, [("memory", "4096"), ("scsi1", "local-lvm:10")]);
        assert_eq!(change.delete, ["net1"]);
        assert_eq!(change.digest.unwrap().as_str(), "ab");
    }

    #[test]
    fn text_that_a_user_wrote_since_the_plan_stays() {
        let marker = "talmox/1 cluster=ab node=worker-1 stage=made";
        let set = VmOptions::new().description(&format!("{marker} own-tags=blue"));
        let current = format!("{marker}\n\nby hand");
        let found = config(&[("description", current.as_str())]);
        let change = change(&step(set, &[]), &found, false);
        let expected = format!("{marker} own-tags=blue\n\nby hand");
        assert_eq!(change.set.get("description"), Some(expected.as_str()));
    }
}
