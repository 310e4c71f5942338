//! Tasks of an earlier run or attempt that are still running.

use talmox_pve::api::qemu::Vm;
use talmox_pve::api::task::{self, Filter, TaskEntry, TaskState};
use talmox_pve::id::Upid;

use super::super::{StepContext, StepError};

/// Tasks of some kinds that concern a VM. A step waits for each of them once.
pub(super) struct Earlier<'a> {
    /// The VM that the tasks concern, and the host that the tasks run on.
    vm: &'a Vm,
    kinds: &'static [&'static str],
    followed: Vec<Upid>,
}

impl<'a> Earlier<'a> {
    pub(super) fn new(vm: &'a Vm, kinds: &'static [&'static str]) -> Self {
        Self { vm, kinds, followed: vec![] }
    }

    /// Waits for the end of a task that runs now, and returns whether there was one. The next read of the VM shows
    /// whether the task succeeded.
    pub(super) async fn follow(
        &mut self,
        doing: &str,
        context: &StepContext,
    ) -> Result<bool, StepError> {
        let Some(upid) = self.running(context).await? else { return Ok(false) };
        context.end_of_earlier(&upid, doing).await?;
        self.followed.push(upid);
        Ok(true)
    }

    /// A running task of the given kinds on this VM that was not followed yet. Only tasks of this login are listed, because
    /// listing them needs no privilege.
    async fn running(&self, context: &StepContext) -> Result<Option<Upid>, StepError> {
        let Vm { node, vmid } = self.vm;
        let doing = format!("list the tasks of VM {vmid} on {node}");
        let filter = Filter { vmid: Some(*vmid), ..Filter::default() };
        let tasks = context.ask(&task::list(node, &filter), &doing).await?;
        let is_new = |task: &TaskEntry| {
            task.state == TaskState::Running
                && self.kinds.contains(&task.upid.kind())
                && !self.followed.contains(&task.upid)
        };
        Ok(tasks.into_iter().find(is_new).map(|task| task.upid))
    }
}
