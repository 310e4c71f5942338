//! What create and clone have in common: a VM that comes into being, slowly, and has no owner until
//! it is done.

use talmox_plan::plan::OwnVm;
use talmox_pve::PveError;
use talmox_pve::api::qemu::Vm;
use talmox_pve::id::Upid;
use talmox_pve::request::Request;

use super::super::{Done, ErrorKind, StepCode, StepContext, StepError};
use super::earlier::Earlier;
use super::error;
use super::vm::{Sight, look, not_ours, says_taken};

/// A VM that is to be made.
pub(super) struct Making<'a> {
    pub(super) own: &'a OwnVm,
    pub(super) request: Request<Upid>,
    /// What its task is about, and where that runs.
    pub(super) place: Vm,
    /// A task of an earlier run that makes it.
    pub(super) running: Option<&'a Upid>,
    pub(super) doing: String,
}

impl Making<'_> {
    /// Makes the VM, unless it is there or being made.
    pub(super) async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        if let Some(upid) = self.running.filter(|_| context.attempt == 1) {
            context.end_of_earlier(upid, &self.doing).await?;
        }
        // The call itself looks whether the number is free, and nothing happens if it is not: so the
        // first attempt needs no look of its own.
        if (context.attempt > 1 || self.running.is_some()) && self.is_there(context).await? {
            context.seen.found(self.own.vm.vmid);
            return Ok(Done::Already);
        }
        let made = match context.start_task(&self.request).await? {
            Ok(running) => {
                context.seen.creates(self.own.vm.vmid);
                context.end_of(running).await?
            }
            Err(error) => Err(error),
        };
        match made {
            Ok(_) => {}
            Err(error) if says_taken(&error) => {
                if self.is_there(context).await? {
                    context.seen.found(self.own.vm.vmid);
                    return Ok(Done::Already);
                }
                return Err(StepError::retry(StepCode::ApiRejected, &self.doing).caused_by(error));
            }
            Err(error) if error.is_task_unstarted() => {
                return Err(self.unstarted(error, context).await?);
            }
            Err(error) => return Err(self.failed(error, context).await),
        }
        context.seen.made(self.own.vm.vmid);
        Ok(Done::Acted)
    }

    /// A task that fails cleans up after itself. One that was cut off, with its host, cannot: what it
    /// left is locked, and for people.
    async fn failed(&self, error: PveError, context: &StepContext) -> StepError {
        let is_task = matches!(error, PveError::TaskFailed(_));
        let plain = error::of(&self.doing, error);
        if !is_task || plain.kind != ErrorKind::Failed {
            return plain;
        }
        let left = match look(self.own, context).await {
            Ok(sight @ Sight::Unfinished { .. }) => sight,
            // Without an owner it has no pool, and hides from most tokens.
            Ok(Sight::Hidden) => {
                Sight::Unfinished { vm: self.own.vm.clone(), lock: "making".to_owned() }
            }
            _ => return plain,
        };
        StepError { source: plain.source, ..not_ours(self.own, &left) }
    }

    /// The task was not started, which another attempt may get past. But Proxmox reserves the number of a new VM before it
    /// starts the task, and then no task is there to release it.
    async fn unstarted(
        &self,
        error: PveError,
        context: &StepContext,
    ) -> Result<StepError, StepError> {
        let left = match look(self.own, context).await? {
            sight @ Sight::Unfinished { .. } => sight,
            // A VM that is not in its pool yet is hidden from most tokens.
            Sight::Hidden => {
                Sight::Unfinished { vm: self.own.vm.clone(), lock: "create".to_owned() }
            }
            _ => return Ok(error::of(&self.doing, error)),
        };
        // Proxmox reserved the number for this very request: otherwise it would have said that the VM exists.
        context.seen.creates(self.own.vm.vmid);
        Ok(not_ours(self.own, &left).caused_by(error))
    }

    /// Whether the VM is there; waits for a task of ours that is making it.
    async fn is_there(&self, context: &StepContext) -> Result<bool, StepError> {
        // A clone's task carries the template's number.
        let mut earlier = Earlier::new(&self.place, &["qmcreate", "qmclone"]);
        let mut is_last_look = false;
        loop {
            let sight = look(self.own, context).await?;
            match sight {
                Sight::Free => return Ok(false),
                Sight::Ours(found) => {
                    if found.vm == self.own.vm {
                        context.seen.keep(found.vm.vmid, found.config);
                    }
                    return Ok(true);
                }
                // It may have ended since we looked.
                Sight::Unfinished { .. } | Sight::Hidden if !is_last_look => {
                    is_last_look = !earlier.follow(&self.doing, context).await?;
                }
                sight => return Err(not_ours(self.own, &sight)),
            }
        }
    }
}
