//! Finding a VM, and seeing whether it is ours.

use talmox_plan::ownership::{Owner, unfinished_vm_hint};
use talmox_plan::plan::OwnVm;
use talmox_pve::PveError;
use talmox_pve::api::cluster;
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::config::VmConfig;

use super::super::{StepCode, StepContext, StepError};
use super::error;

/// What is found under the number of a VM.
#[derive(Debug)]
pub(super) enum Sight {
    /// Nothing.
    Free,
    /// Ours.
    Ours(FoundVm),
    /// Something that has no owner yet: a create or clone goes on, or broke off.
    Unfinished { vm: Vm, lock: String },
    /// Something that we may not see: of somebody else, or of ours in the making, which is not in its
    /// pool yet.
    Hidden,
    /// Not provably ours.
    Foreign { reason: String },
}

/// A VM of ours, where it is, which need not be where it was planned: it may have been moved.
#[derive(Clone, Debug)]
pub(super) struct FoundVm {
    pub(super) vm: Vm,
    pub(super) config: VmConfig,
}

/// Looks at what there is under the VM's number.
pub(super) async fn look(own: &OwnVm, context: &StepContext) -> Result<Sight, StepError> {
    let doing = format!("look at VM {}", own.vm.vmid);
    let config = context.try_ask(&qemu::config(&own.vm)).await?;
    let error = match config {
        Ok(config) => return Ok(judge(own, &own.vm, config)),
        Err(error) => error,
    };
    // Gone and forbidden look alike to a token with few rights.
    if !error.is_vm_missing() && !error.is_permission() {
        return Err(error::of(&doing, error));
    }
    if is_free(own, context).await? {
        return Ok(Sight::Free);
    }
    // Somebody has the number: perhaps our VM, elsewhere.
    let resources = context.ask(&cluster::resources(), &doing).await?;
    let guest = resources.guests.into_iter().find(|guest| guest.vmid == own.vm.vmid);
    match guest {
        Some(guest) if guest.is_vm && guest.node != own.vm.node => {
            let vm = Vm::new(&guest.node, own.vm.vmid);
            let config = context.try_ask(&qemu::config(&vm)).await?;
            match config {
                Ok(config) => Ok(judge(own, &vm, config)),
                Err(error) if error.is_permission() => Ok(Sight::Hidden),
                Err(error) => Err(error::of(&doing, error)),
            }
        }
        Some(guest) if !guest.is_vm => {
            Ok(Sight::Foreign { reason: "it is a container".to_owned() })
        }
        _ if error.is_permission() => Ok(Sight::Hidden),
        // On its way from one to the other at this very moment.
        _ => Err(StepError::retry(StepCode::ApiRejected, doing).caused_by(error)),
    }
}

/// The one question that needs no rights.
pub(super) async fn is_free(own: &OwnVm, context: &StepContext) -> Result<bool, StepError> {
    let asked = context.try_ask(&cluster::is_free(own.vm.vmid)).await?;
    match asked {
        Ok(_) => Ok(true),
        Err(error) if error.is_already_exists() => Ok(false),
        Err(error) => {
            Err(error::of(&format!("ask whether the VM number {} is free", own.vm.vmid), error))
        }
    }
}

fn judge(own: &OwnVm, vm: &Vm, config: VmConfig) -> Sight {
    match own.identity.judge(&config) {
        Owner::Owned(_) => Sight::Ours(FoundVm { vm: vm.clone(), config }),
        Owner::Foreign { reason } => match config.lock() {
            Some(lock @ ("create" | "clone")) if is_nameless(&config) => {
                Sight::Unfinished { vm: vm.clone(), lock: lock.to_owned() }
            }
            _ => Sight::Foreign { reason },
        },
    }
}

/// While disks are copied a VM has no name and no text but what Proxmox itself puts there.
fn is_nameless(config: &VmConfig) -> bool {
    let description = config.description().trim();
    config.name().is_none() && (description.is_empty() || description == "qmclone temporary file")
}

/// The VM, which must be there and ours. What the step before saw will do.
pub(super) async fn ours(own: &OwnVm, context: &StepContext) -> Result<FoundVm, StepError> {
    if let Some(config) = context.seen.take(own.vm.vmid)
        && let Sight::Ours(found) = judge(own, &own.vm, config)
    {
        return Ok(found);
    }
    match look(own, context).await? {
        Sight::Ours(found) => Ok(found),
        sight => Err(not_ours(own, &sight)),
    }
}

/// Looks again after a change, and remembers it for the next step.
pub(super) async fn see_again(
    own: &OwnVm,
    vm: &Vm,
    context: &StepContext,
) -> Result<FoundVm, StepError> {
    let doing = format!("look at VM {} on {}", vm.vmid, vm.node);
    let config = context.ask(&qemu::config(vm), &doing).await?;
    match judge(own, vm, config) {
        Sight::Ours(found) => {
            // Only there does the next step expect it.
            if found.vm == own.vm {
                context.seen.keep(vm.vmid, found.config.clone());
            }
            Ok(found)
        }
        sight => Err(not_ours(own, &sight)),
    }
}

/// Why nothing is done to what was found.
pub(super) fn not_ours(own: &OwnVm, sight: &Sight) -> StepError {
    let vmid = own.vm.vmid;
    let node = &own.identity.node;
    match sight {
        Sight::Free => StepError::failed(StepCode::VmGone, format!("VM {vmid} of {node} is gone"))
            .hint("run the same command again: it plans anew"),
        Sight::Ours(_) => {
            StepError::failed(StepCode::VmExists, format!("VM {vmid} of {node} is there already"))
        }
        Sight::Unfinished { vm, lock } => {
            let text = format!("VM {vmid} is half made: its {lock} broke off, and left it locked");
            // No token can remove the lock.
            StepError::failed(StepCode::VmHalfMade, text)
                .hint(unfinished_vm_hint(vmid, vm.node.as_str()))
        }
        Sight::Hidden => {
            let text = format!("the VM number {vmid} is taken by something that may not be seen");
            StepError::failed(StepCode::VmInvisible, text).hint(
                "it belongs to somebody else, or was taken out of the pool; \
                 choose another vmid, or put it back",
            )
        }
        Sight::Foreign { reason } => StepError::failed(
            StepCode::VmNotOwned,
            format!("VM {vmid} is not the VM of {node}: {reason}"),
        )
        .hint("talmox does not touch it; choose another vmid"),
    }
}

/// Whether a refusal says that a VM with this number is there.
pub(super) fn says_taken(error: &PveError) -> bool {
    error.is_already_exists()
}
