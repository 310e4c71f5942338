//! Creation of the templates that nodes are cloned from.

use std::sync::Arc;

use talmox_engine::event::Events;
use talmox_engine::execute::Cancel;
use talmox_engine::observe::free_numbers;
use talmox_plan::observed::Observed;
use talmox_plan::plan::Plan;
use talmox_plan::planning::{self, missing_templates};

use super::Session;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::report::{ResumeInfo, not_done};

/// Lowest vmid of a template by default. It is far above the usual vmids of VMs.
pub(crate) const FIRST: u32 = 9000;

/// Plan that creates the missing templates.
pub(crate) async fn plan(session: &Session, observed: &Observed, first: u32) -> Plan {
    let missing = missing_templates(&session.desired, &observed.pve);
    let open = missing.iter().filter(|template| template.vmid.is_none()).count();
    let numbers = free_numbers(&session.desired, &session.pve, first, open).await;
    planning::templates(&session.desired, observed, &numbers)
}

/// Creates the missing templates without output.
pub(super) async fn make_missing(session: &Session, printer: &Printer) -> Result<(), CommandError> {
    if session.desired.nodes.iter().all(|node| node.template.is_none()) {
        return Ok(());
    }
    let observed = session.observe().await?;
    let plan = plan(session, &observed, FIRST).await;
    let events = Events::unheard(session.clock);
    let write = Arc::new(|_| Ok(()));
    let outcome = session.execute(&plan, write, vec![], &Cancel::default(), &events).await;
    if outcome.is_done() {
        return Ok(());
    }
    printer.say_always("Cannot create the templates in the lab:");
    Err(not_done(&outcome, ResumeInfo { log: None, is_rehearsal: true }, printer))
}
