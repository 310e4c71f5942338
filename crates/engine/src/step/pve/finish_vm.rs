//! Sets the options that could not be set when the VM was created or cloned.

use talmox_plan::ownership::Marker;
use talmox_plan::plan::FinishVm;
use talmox_pve::config::{VmChange, VmConfig, VmOptions, drift};
use talmox_pve::id::DiskSlot;
use talmox_pve::property::{Drive, Tags};

use super::super::{Done, ErrorKind, RunStep, StepContext, StepError};
use super::put_config::{PutError, try_put};
use super::tags::{self, TagsEnd};
use super::vm::{FoundVm, owned_vm, see_again};

impl RunStep for FinishVm {
    /// Sets the options in one change that is conditional on the digest of the config. Before that, a separate request sets
    /// tags that the tag policy may reject. If the run is interrupted between the two requests, the VM is still unfinished,
    /// and this step runs again.
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        let FoundVm { vm, mut config } = owned_vm(&self.own, context).await?;
        let desired = self.set.get("tags").map(Tags::parse);
        let tags = match &desired {
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
        match (try_put(&vm, &change, &doing, context).await?, &desired) {
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
/// Setting a drive creates it, so a drive is set only if its slot is empty. A cloud-init drive would lose its volume if it
/// were set again.
fn change(step: &FinishVm, config: &VmConfig, are_tags_rejected: bool) -> VmChange {
    let mut set = VmOptions::new();
    let desired = if are_tags_rejected { noting_rejection(&step.set) } else { step.set.clone() };
    for differs in drift(&desired, config) {
        if are_tags_rejected && differs.key == "tags" {
            continue;
        }
        let is_drive = differs.key.parse::<DiskSlot>().is_ok();
        let is_taken = differs.found.is_some()
            || (Drive::parse(&differs.desired).is_cloudinit() && config.cloudinit().is_some());
        if !(is_drive && is_taken) {
            set = set.set(&differs.key, &differs.desired);
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

/// The same options, with a marker that shows later plans that the tags cannot be set, and that records no tags of talmox.
fn noting_rejection(set: &VmOptions) -> VmOptions {
    let text = set.get("description").unwrap_or_default();
    let own_tags = Tags::default();
    let noted = Marker::find(text)
        .and_then(|marker| Marker { are_tags_rejected: true, own_tags, ..marker }.replace_in(text));
    match noted {
        Some(text) => set.clone().description(&text),
        None => set.clone(),
    }
}
