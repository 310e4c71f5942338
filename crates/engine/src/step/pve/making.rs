//! Common part of creating and cloning a VM. Both start a task that takes long, and the VM has no marker until the task ends.

use talmox_plan::plan::OwnVm;
use talmox_pve::PveError;
use talmox_pve::api::qemu::Vm;
use talmox_pve::id::Upid;
use talmox_pve::request::Request;

use super::super::{Done, ErrorKind, StepCode, StepContext, StepError};
use super::earlier::Earlier;
use super::error;
use super::vm::{VmAtId, look, says_taken, unexpected_vm};

/// A VM to be created.
pub(super) struct Making<'a> {
    pub(super) own: &'a OwnVm,
    pub(super) request: Request<Upid>,
    /// The VM that the task is listed for in Proxmox, and the host that the task runs on.
    pub(super) place: Vm,
    /// A task of an earlier run that is creating the VM.
    pub(super) running: Option<&'a Upid>,
    pub(super) doing: String,
}

impl Making<'_> {
    /// Creates the VM, unless it exists or is being created.
    pub(super) async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        if let Some(upid) = self.running.filter(|_| context.attempt == 1) {
            context.end_of_earlier(upid, &self.doing).await?;
        }
        // The first attempt does not read the VM, because Proxmox rejects the request if the vmid is in use.
        if (context.attempt > 1 || self.running.is_some()) && self.is_there(context).await? {
            context.vm_cache.found(self.own.vm.vmid);
            return Ok(Done::Already);
        }
        let made = match context.start_task(&self.request).await? {
            Ok(running) => {
                context.vm_cache.creates(self.own.vm.vmid);
                context.end_of(running).await?
            }
            Err(error) => Err(error),
        };
        match made {
            Ok(_) => {}
            Err(error) if says_taken(&error) => {
                if self.is_there(context).await? {
                    context.vm_cache.found(self.own.vm.vmid);
                    return Ok(Done::Already);
                }
                return Err(StepError::retry(StepCode::ApiRejected, &self.doing).caused_by(error));
            }
            Err(error) if error.is_task_unstarted() => {
                return Err(self.unstarted(error, context).await?);
            }
            Err(error) => return Err(self.failed(error, context).await),
        }
        context.vm_cache.made(self.own.vm.vmid);
        Ok(Done::Acted)
    }

    /// The error of a failed task. Usually the task removes its VM. A task that ended because its host failed cannot do that:
    /// the VM stays locked, and must be deleted by hand.
    async fn failed(&self, error: PveError, context: &StepContext) -> StepError {
        let is_task = matches!(error, PveError::TaskFailed(_));
        let plain = error::of(&self.doing, error);
        if !is_task || plain.kind != ErrorKind::Failed {
            return plain;
        }
        let left = match look(self.own, context).await {
            Ok(sight @ VmAtId::Unfinished { .. }) => sight,
            // A VM without a pool is hidden from most tokens.
            Ok(VmAtId::Hidden) => {
                VmAtId::Unfinished { vm: self.own.vm.clone(), lock: "making".to_owned() }
            }
            _ => return plain,
        };
        StepError { source: plain.source, ..unexpected_vm(self.own, &left) }
    }

    /// The error of a task that was not started. A retry may succeed. But Proxmox reserves the vmid of a new VM before it
    /// starts the task, and no task releases that vmid.
    async fn unstarted(
        &self,
        error: PveError,
        context: &StepContext,
    ) -> Result<StepError, StepError> {
        let left = match look(self.own, context).await? {
            sight @ VmAtId::Unfinished { .. } => sight,
            // A VM that is not in its pool yet is hidden from most tokens.
            VmAtId::Hidden => {
                VmAtId::Unfinished { vm: self.own.vm.clone(), lock: "create".to_owned() }
            }
            _ => return Ok(error::of(&self.doing, error)),
        };
        // Proxmox reserved the vmid for this request, because otherwise the error would be that the VM exists.
        context.vm_cache.creates(self.own.vm.vmid);
        Ok(unexpected_vm(self.own, &left).caused_by(error))
    }

    /// Whether the VM exists. Waits for a task of this login that is creating it.
    async fn is_there(&self, context: &StepContext) -> Result<bool, StepError> {
        // The task of a clone has the vmid of the template.
        let mut earlier = Earlier::new(&self.place, &["qmcreate", "qmclone"]);
        let mut is_last_look = false;
        loop {
            let sight = look(self.own, context).await?;
            match sight {
                VmAtId::Free => return Ok(false),
                VmAtId::Owned(found) => {
                    if found.vm == self.own.vm {
                        context.vm_cache.keep(found.vm.vmid, found.config);
                    }
                    return Ok(true);
                }
                // The task may have ended since the VM was read.
                VmAtId::Unfinished { .. } | VmAtId::Hidden if !is_last_look => {
                    is_last_look = !earlier.follow(&self.doing, context).await?;
                }
                sight => return Err(unexpected_vm(self.own, &sight)),
            }
        }
    }
}
