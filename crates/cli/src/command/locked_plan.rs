//! Execution of a confirmed plan under the cluster lock. Only the confirmed steps may run.

use std::sync::Arc;

use talmox_engine::access::WriteFiles;
use talmox_plan::plan::{self, Plan};

use crate::command::execute_plan::execute_plan;
use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::interrupt;
use crate::printer::Printer;
use crate::session::{RunLocks, Session};

/// Plan that the user confirmed.
pub(super) struct ConfirmedPlan<'a> {
    pub(super) plan: &'a Plan,
    /// Name of the command, for the lock and the run log.
    pub(super) command: &'a str,
    /// Error message if the plan no longer matches the observed state.
    pub(super) changed: &'a str,
}

impl ConfirmedPlan<'_> {
    /// Locks the cluster, makes the plan again, and executes the confirmed plan. Returns an error if the new plan has
    /// errors or other steps, because another run may have changed the cluster before the lock was taken.
    pub(super) async fn execute(
        &self,
        session: &Session,
        plan_again: impl AsyncFn() -> Result<Plan, CommandError>,
        printer: &Printer,
    ) -> Result<(), CommandError> {
        self.execute_writing(session, plan_again, Arc::new(|_| Ok(())), printer).await
    }

    /// Same as [`ConfirmedPlan::execute`], for a plan that may write the client files.
    pub(super) async fn execute_writing(
        &self,
        session: &Session,
        plan_again: impl AsyncFn() -> Result<Plan, CommandError>,
        write: WriteFiles,
        printer: &Printer,
    ) -> Result<(), CommandError> {
        let locks = session.lock_cluster(self.command, printer).await?;
        let executed = self.execute_locked(session, plan_again, write, &locks, printer).await;
        locks.release(printer).await;
        executed
    }

    async fn execute_locked(
        &self,
        session: &Session,
        plan_again: impl AsyncFn() -> Result<Plan, CommandError>,
        write: WriteFiles,
        locks: &RunLocks,
        printer: &Printer,
    ) -> Result<(), CommandError> {
        if locks.are_held() {
            // The guard makes sure that the lock is released after an interrupt.
            let _guard = interrupt::guard();
            let current = plan_again().await?;
            if interrupt::is_requested() {
                return Err(interrupt::stopped());
            }
            let has_errors = current.blocking_errors().next().is_some();
            if has_errors || !plan::has_same_steps(self.plan, &current) {
                return Err(CommandError::failed(CommandCode::PlanChanged, self.changed)
                    .hint("run the same command again to see the new plan"));
            }
        }
        execute_plan(session, self.plan, self.command, write, locks.fences(), printer).await?;
        Ok(())
    }
}
