//! Tags of VMs. The tag policy of the datacenter may reject them.
//!
//! Proxmox checks tags in the middle of a change, and keeps the options before them pending. So tags that are not known to be
//! allowed are set in a separate request. No step depends on tags, because marker and UUID prove that a VM is owned. So a
//! rejection is not an error: it is reported and recorded in the marker.

use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::config::{VmChange, VmConfig, VmOptions};
use talmox_pve::property::Tags;

use super::super::tag_policy::TagVerdict;
use super::super::{StepContext, StepError};
use super::error;

/// Result of setting tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TagsEnd {
    /// The VM has the tags, or they can be set together with the other options.
    Allowed,
    /// The tags were set, so the config that was read before is outdated.
    Set,
    /// The tag policy rejected the tags, and nothing was changed.
    Rejected,
}

/// Sets the tags of a VM. Sends no request if the tags are known to be allowed or rejected.
pub(super) async fn settle(
    vm: &Vm,
    tags: &Tags,
    config: &VmConfig,
    context: &StepContext,
) -> Result<TagsEnd, StepError> {
    let old = config.tags();
    let mut policy = context.wait(context.vm_cache.tag_policy.lock()).await?;
    match policy.judge(&old, tags) {
        TagVerdict::Allowed => return Ok(TagsEnd::Allowed),
        TagVerdict::Rejected { reason } => {
            report(vm, tags, &reason, context);
            return Ok(TagsEnd::Rejected);
        }
        TagVerdict::Unknown => {}
    }
    let set = VmOptions::new().tags(tags);
    let change = VmChange { set, digest: config.digest(), ..VmChange::default() };
    let sent = context.act(async { Ok(context.send(&qemu::set_config(vm, &change)).await) });
    match sent.await? {
        Ok(()) => {
            policy.allow(&old, tags);
            Ok(TagsEnd::Set)
        }
        Err(error) if error.is_tag_policy() => {
            policy.reject(&old, tags, error.to_string());
            report(vm, tags, &error.to_string(), context);
            Ok(TagsEnd::Rejected)
        }
        Err(error) => {
            Err(error::of(&format!("set the tags of VM {} on {}", vm.vmid, vm.node), error))
        }
    }
}

/// Records that Proxmox rejected tags that it allowed before. The tag policy was changed during the run.
pub(super) async fn forbid(tags: &Tags, config: &VmConfig, reason: String, context: &StepContext) {
    context.vm_cache.tag_policy.lock().await.reject(&config.tags(), tags, reason);
}

fn report(vm: &Vm, tags: &Tags, reason: &str, context: &StepContext) {
    context.note(format!(
        "warning: Proxmox rejected the tags {tags} of VM {vmid}: {reason}. The tag policy of the datacenter (user-tag-access, \
         registered-tags) does not let the token set them; the VM works without them. To set them, run as root on \
         {host}: qm set {vmid} --tags '{tags}'",
        vmid = vm.vmid,
        host = vm.node,
    ));
}
