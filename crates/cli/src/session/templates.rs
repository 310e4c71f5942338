//! Templates that nodes are cloned from.

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
use crate::report::{Rest, not_done};

/// Where numbers of templates begin, out of the way of VMs that are numbered from 100 on.
pub(crate) const FIRST: u32 = 9000;

/// A plan that makes what is missing.
pub(crate) async fn plan(session: &Session, world: &Observed, first: u32) -> Plan {
    let missing = missing_templates(&session.desired, &world.pve);
    let open = missing.iter().filter(|template| template.vmid.is_none()).count();
    let numbers = free_numbers(&session.desired, &session.pve, first, open).await;
    planning::templates(&session.desired, world, &numbers)
}

/// Makes what is missing, without a word.
pub(super) async fn make_missing(session: &Session, printer: &Printer) -> Result<(), CommandError> {
    if session.desired.nodes.iter().all(|node| node.template.is_none()) {
        return Ok(());
    }
    let world = session.observe().await?;
    let plan = plan(session, &world, FIRST).await;
    let events = Events::unheard(session.clock);
    let write = Arc::new(|_| Ok(()));
    let outcome = session.execute(&plan, write, vec![], &Cancel::default(), &events).await;
    if outcome.is_done() {
        return Ok(());
    }
    printer.say_always("Cannot make the templates that the lab should have:");
    Err(not_done(&outcome, Rest { log: None, is_rehearsal: true }, printer))
}
