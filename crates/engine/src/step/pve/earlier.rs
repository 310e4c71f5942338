//! Tasks that an earlier run of ours began, and that go on without it.

use talmox_pve::api::qemu::Vm;
use talmox_pve::api::task::{self, Filter, TaskEntry, TaskState};
use talmox_pve::id::Upid;

use super::super::{StepContext, StepError};

/// Tasks of some kinds that concern a VM, each of which is waited for once.
pub(super) struct Earlier<'a> {
    /// What they are about, and where they run.
    vm: &'a Vm,
    kinds: &'static [&'static str],
    followed: Vec<Upid>,
}

impl<'a> Earlier<'a> {
    pub(super) fn new(vm: &'a Vm, kinds: &'static [&'static str]) -> Self {
        Self { vm, kinds, followed: vec![] }
    }

    /// Waits for the end of one that runs now. Whether its end was a good one the next look shows. Says whether there
    /// was one.
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

    /// Our own tasks can be seen without any right.
    async fn running(&self, context: &StepContext) -> Result<Option<Upid>, StepError> {
        let Vm { node, vmid } = self.vm;
        let doing = format!("look for the tasks of VM {vmid} on {node}");
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
