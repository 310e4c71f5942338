//! Finding a VM, and checking whether it is an owned VM.

use talmox_plan::ownership::{Owner, unfinished_vm_hint};
use talmox_plan::plan::OwnVm;
use talmox_pve::PveError;
use talmox_pve::api::cluster;
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::config::VmConfig;

use super::super::{StepCode, StepContext, StepError};
use super::error;

/// Result of reading the VM with a certain vmid.
#[derive(Debug)]
pub(super) enum VmAtId {
    /// No VM has the vmid.
    Free,
    /// The owned VM.
    Owned(FoundVm),
    /// A VM without a marker: a create or clone is running, or was interrupted.
    Unfinished { vm: Vm, lock: String },
    /// A VM that the token cannot see: a foreign VM, or a VM of this cluster that is being created and not in its pool yet.
    Hidden,
    /// A foreign VM.
    Foreign { reason: String },
}

/// An owned VM. Its host may differ from the planned host, because the VM may have been migrated.
#[derive(Clone, Debug)]
pub(super) struct FoundVm {
    pub(super) vm: Vm,
    pub(super) config: VmConfig,
}

/// Reads the VM with the vmid of this node, and checks whether it is the owned VM.
pub(super) async fn look(own: &OwnVm, context: &StepContext) -> Result<VmAtId, StepError> {
    let doing = format!("read VM {}", own.vm.vmid);
    let expected = context.vm_cache.last_seen(&own.vm);
    let config = context.try_ask(&qemu::config(&expected)).await?;
    let error = match config {
        Ok(config) => return Ok(judge(own, &expected, config)),
        Err(error) => error,
    };
    // For a token with few rights, missing and forbidden VMs have the same error.
    if !error.is_vm_missing() && !error.is_permission() {
        return Err(error::of(&doing, error));
    }
    if is_free(own, context).await? {
        return Ok(VmAtId::Free);
    }
    // The vmid is in use, maybe by the owned VM on another host.
    let resources = context.ask(&cluster::resources(), &doing).await?;
    let guest = resources.guests.into_iter().find(|guest| guest.vmid == own.vm.vmid);
    match guest {
        Some(guest) if guest.is_vm && guest.node != expected.node => {
            let vm = Vm::new(&guest.node, own.vm.vmid);
            let config = context.try_ask(&qemu::config(&vm)).await?;
            match config {
                Ok(config) => {
                    let sight = judge(own, &vm, config);
                    if let VmAtId::Owned(found) = &sight {
                        // The next step reads the VM on this host first.
                        context.vm_cache.is_on(&found.vm);
                    }
                    Ok(sight)
                }
                Err(error) if error.is_permission() => Ok(VmAtId::Hidden),
                Err(error) => Err(error::of(&doing, error)),
            }
        }
        Some(guest) if !guest.is_vm => {
            Ok(VmAtId::Foreign { reason: "it is a container".to_owned() })
        }
        _ if error.is_permission() => Ok(VmAtId::Hidden),
        // The VM is being migrated at this moment.
        _ => Err(StepError::retry(StepCode::ApiRejected, doing).caused_by(error)),
    }
}

/// Whether a vmid is free. The request needs no privileges.
pub(super) async fn is_free(own: &OwnVm, context: &StepContext) -> Result<bool, StepError> {
    let asked = context.try_ask(&cluster::is_free(own.vm.vmid)).await?;
    match asked {
        Ok(_) => Ok(true),
        Err(error) if error.is_already_exists() => Ok(false),
        Err(error) => Err(error::of(&format!("check whether vmid {} is free", own.vm.vmid), error)),
    }
}

fn judge(own: &OwnVm, vm: &Vm, config: VmConfig) -> VmAtId {
    match own.identity.judge(&config) {
        Owner::Owned(_) => VmAtId::Owned(FoundVm { vm: vm.clone(), config }),
        Owner::Foreign { reason } => match config.lock() {
            Some(lock @ ("create" | "clone")) if is_nameless(&config) => {
                VmAtId::Unfinished { vm: vm.clone(), lock: lock.to_owned() }
            }
            _ => VmAtId::Foreign { reason },
        },
    }
}

/// Whether a VM has neither a name nor notes of its own. A VM has neither while Proxmox creates or clones it.
fn is_nameless(config: &VmConfig) -> bool {
    let description = config.description().trim();
    config.name().is_none() && (description.is_empty() || description == "qmclone temporary file")
}

/// The VM, which must exist and be owned. If the previous step has cached the config, the cached config is used.
pub(super) async fn owned_vm(own: &OwnVm, context: &StepContext) -> Result<FoundVm, StepError> {
    if let Some(config) = context.vm_cache.take(own.vm.vmid)
        && let VmAtId::Owned(found) = judge(own, &context.vm_cache.last_seen(&own.vm), config)
    {
        return Ok(found);
    }
    match look(own, context).await? {
        VmAtId::Owned(found) => Ok(found),
        sight => Err(unexpected_vm(own, &sight)),
    }
}

/// Reads the VM again after a change, and caches its config for the next step.
pub(super) async fn see_again(
    own: &OwnVm,
    vm: &Vm,
    context: &StepContext,
) -> Result<FoundVm, StepError> {
    let doing = format!("read VM {} on {}", vm.vmid, vm.node);
    let config = context.ask(&qemu::config(vm), &doing).await?;
    match judge(own, vm, config) {
        VmAtId::Owned(found) => {
            // The next step expects the VM on this host.
            if found.vm == context.vm_cache.last_seen(&own.vm) {
                context.vm_cache.keep(vm.vmid, found.config.clone());
            }
            Ok(found)
        }
        sight => Err(unexpected_vm(own, &sight)),
    }
}

/// The error if the VM with the vmid is not the expected VM.
pub(super) fn unexpected_vm(own: &OwnVm, sight: &VmAtId) -> StepError {
    let vmid = own.vm.vmid;
    let node = &own.identity.node;
    match sight {
        VmAtId::Free => StepError::failed(StepCode::VmGone, format!("VM {vmid} of {node} is gone"))
            .hint("run the same command to make a new plan"),
        VmAtId::Owned(_) => {
            StepError::failed(StepCode::VmExists, format!("VM {vmid} of {node} already exists"))
        }
        VmAtId::Unfinished { vm, lock } => {
            let text =
                format!("VM {vmid} is incomplete: its {lock} was interrupted, and left it locked");
            // No token can remove the lock.
            StepError::failed(StepCode::VmHalfMade, text)
                .hint(unfinished_vm_hint(vmid, vm.node.as_str()))
        }
        VmAtId::Hidden => {
            let text = format!("vmid {vmid} is used by a VM that the token cannot see");
            StepError::failed(StepCode::VmInvisible, text).hint(
                "it is a foreign VM, or was removed from its pool: \
                 choose another vmid, or add it to the pool again",
            )
        }
        VmAtId::Foreign { reason } => StepError::failed(
            StepCode::VmNotOwned,
            format!("VM {vmid} is not the VM of {node}: {reason}"),
        )
        .hint("talmox does not touch it; choose another vmid"),
    }
}

/// Whether a rejection means that the VM exists.
pub(super) fn says_taken(error: &PveError) -> bool {
    error.is_already_exists()
}
