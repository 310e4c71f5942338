//! Commands that show a plan, ask for confirmation, and execute the plan under the locks of the cluster.

use std::sync::Arc;

use serde_json::json;
use talmox_engine::access::WriteFiles;
use talmox_plan::plan::{Plan, show};

use crate::args::Format;
use crate::command::locked_plan::ConfirmedPlan;
use crate::command::{Outcome, plan_blocked};
use crate::error::{CommandError, Exit};
use crate::printer::Printer;
use crate::session::Session;

/// Command that executes a plan.
pub(super) struct PlanCommand<'a> {
    /// Name of the command, for the locks and the run log.
    pub(super) name: &'a str,
    /// Message for a plan without steps: the reason why there is nothing to do.
    pub(super) nothing: &'a str,
    /// Function that writes the client files, for a plan with a step that writes them.
    pub(super) write: WriteFiles,
}

/// Function for [`PlanCommand::write`] that writes no client files.
pub(super) fn writes_nothing() -> WriteFiles {
    Arc::new(|_| Ok(()))
}

impl PlanCommand<'_> {
    /// Makes the plan, shows the plan, calls `ask`, and executes the plan. `ask` returns an error if the plan must not be
    /// executed.
    pub(super) async fn run(
        &self,
        session: &Session,
        plan_of: impl AsyncFn() -> Result<Plan, CommandError>,
        ask: impl FnOnce(&Plan) -> Result<(), CommandError>,
        printer: &Printer,
    ) -> Outcome {
        let _lock = session.lock(self.name)?;
        let plan = plan_of().await?;
        let is_rejected = plan.blocking_errors().next().is_some();
        if printer.format == Format::Text || is_rejected {
            let text = if plan.is_empty() { show::findings(&plan) } else { show::text(&plan) };
            printer.say_raw(&printer.plan(&text, printer.color));
        }
        if is_rejected {
            return Err(plan_blocked("nothing was changed", &plan));
        }
        if !plan.is_empty() {
            ask(&plan)?;
        }
        if plan.steps.is_empty() {
            if printer.format == Format::Text {
                printer.result(&format!("Nothing to do: {}.\n", self.nothing))?;
            }
            return report(session, &plan, printer);
        }
        let confirmed = ConfirmedPlan {
            plan: &plan,
            command: self.name,
            changed: "nothing was changed: the cluster changed since the plan was shown",
        };
        let write = Arc::clone(&self.write);
        confirmed.execute_writing(session, async || plan_of().await, write, printer).await?;
        report(session, &plan, printer)
    }
}

/// Prints the JSON result.
fn report(session: &Session, plan: &Plan, printer: &Printer) -> Outcome {
    if printer.format == Format::Json {
        let result = json!({
            "cluster": session.desired.cluster,
            "changed": !plan.steps.is_empty(),
            "findings": plan.findings,
        });
        printer.result(&format!("{result}\n"))?;
    }
    Ok(Exit::Fine)
}
