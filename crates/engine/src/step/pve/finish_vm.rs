//! Sets the options that create or clone could not set.

use talmox_plan::ownership::Marker;
use talmox_plan::plan::FinishVm;
use talmox_pve::PveError;
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::config::{VmChange, VmConfig, VmOptions, drift};
use talmox_pve::id::DiskSlot;
use talmox_pve::property::{Drive, Tags};

use super::super::{Done, ErrorKind, RunStep, StepContext, StepError};
use super::error;
use super::tags::{self, TagsEnd};
use super::vm::{FoundVm, ours, see_again};

impl RunStep for FinishVm {
    /// Sets the options in one change that is conditional on the digest of the config. Tags that the tag policy may reject are
    /// set before, in a separate request. If the run is interrupted between the two requests, the VM is still unfinished, and
    /// this step runs again.
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        let FoundVm { vm, mut config } = ours(&self.own, context).await?;
        let wanted = self.set.get("tags").map(Tags::parse);
        let tags = match &wanted {
            Some(tags) => tags::settle(&vm, tags, &config, context).await?,
            None => TagsEnd::Allowed,
        };
        if tags == TagsEnd::Set {
            config = see_again(&self.own, &vm, context).await?.config;
            // The next change makes the cached config outdated.
            context.vm_cache.take(vm.vmid);
        }
        let change = change(self, &config, tags == TagsEnd::Rejected);
        if change.set.is_empty() && change.delete.is_empty() {
            return Ok(if tags == TagsEnd::Set { Done::Acted } else { Done::Already });
        }
        let doing = format!("configure VM {} on {}", vm.vmid, vm.node);
        match (try_put(&vm, &change, &doing, context).await?, &wanted) {
            (Ok(()), _) => Ok(Done::Acted),
            (Err(PutError { rejection: Some(reason), error }), Some(tags)) => {
                tags::forbid(tags, &config, reason, context).await;
                Err(StepError { kind: ErrorKind::Retry { after: None }, ..error })
            }
            (Err(PutError { error, .. }), _) => Err(error),
        }
    }
}

/// The desired options that the VM does not have yet.
///
/// A drive that is set is created, so a drive is set only if its slot is empty; and a cloud-init drive that is set again loses
/// its volume.
fn change(step: &FinishVm, config: &VmConfig, are_tags_rejected: bool) -> VmChange {
    let mut set = VmOptions::new();
    let wanted = if are_tags_rejected { noting_rejection(&step.set) } else { step.set.clone() };
    for differs in drift(&wanted, config) {
        if are_tags_rejected && differs.key == "tags" {
            continue;
        }
        let is_drive = differs.key.parse::<DiskSlot>().is_ok();
        let is_taken = differs.found.is_some()
            || (Drive::parse(&differs.wanted).is_cloudinit() && config.cloudinit().is_some());
        if !(is_drive && is_taken) {
            set = set.set(&differs.key, &differs.wanted);
        }
    }
    let is_there = |key: &&String| config.get(key).is_some();
    VmChange {
        set,
        delete: step.delete.iter().filter(is_there).cloned().collect(),
        digest: config.digest(),
        ..VmChange::default()
    }
}

/// The same options, with a marker that shows later plans that the tags cannot be set.
fn noting_rejection(set: &VmOptions) -> VmOptions {
    let text = set.get("description").unwrap_or_default();
    let noted = Marker::find(text)
        .and_then(|marker| Marker { are_tags_rejected: true, ..marker }.replace_in(text));
    match noted {
        Some(text) => set.clone().description(&text),
        None => set.clone(),
    }
}

/// Why a config was not changed.
struct PutError {
    error: StepError,
    /// The text of Proxmox, if the tag policy rejected the change.
    rejection: Option<String>,
}

/// Changes a config. A change that Proxmox rejects may be pending in part, and would take effect with the next start: that part is
/// reverted.
async fn try_put(
    vm: &Vm,
    change: &VmChange,
    doing: &str,
    context: &StepContext,
) -> Result<Result<(), PutError>, StepError> {
    let sent = context.act(async { Ok(context.send(&qemu::set_config(vm, change)).await) });
    let error = match sent.await? {
        Ok(()) => return Ok(Ok(())),
        Err(error) => error,
    };
    let is_refusal = matches!(error, PveError::Rejected(_));
    // Proxmox checks both before it stores any option.
    if !is_refusal || error.is_digest_mismatch() || error.is_locked() {
        return Err(error::of(doing, error));
    }
    let left = revert(vm, change, context).await;
    let rejection = error.is_tag_policy().then(|| error.to_string());
    let error = error::of(doing, error);
    let error = match left {
        Ok(reverted) if reverted.is_empty() => error,
        Ok(reverted) => {
            context
                .note(format!("reverted the pending part of the change: {}", reverted.join(", ")));
            error
        }
        Err(also) => {
            let hint = format!(
                "a part of the change may still be pending on VM {} ({also}): revert it in Proxmox \
                 under Hardware and Options",
                vm.vmid
            );
            return Err(error.hint(hint));
        }
    };
    Ok(Err(PutError { error, rejection }))
}

/// Reverts the options of a rejected change that became pending, and returns their names.
async fn revert(
    vm: &Vm,
    change: &VmChange,
    context: &StepContext,
) -> Result<Vec<String>, StepError> {
    let doing = format!("revert pending options of VM {}", vm.vmid);
    let pending = context.ask(&qemu::pending(vm), &doing).await?;
    let is_ours = |key: &str| {
        change.set.get(key).is_some() || change.delete.iter().any(|deleted| deleted == key)
    };
    let left = pending.into_iter().filter(|option| option.pending.is_some());
    let left: Vec<String> = left.map(|option| option.key).filter(|key| is_ours(key)).collect();
    if !left.is_empty() {
        let change = VmChange { revert: left.clone(), ..VmChange::default() };
        context.change(&qemu::set_config(vm, &change), &doing).await?;
    }
    Ok(left)
}
