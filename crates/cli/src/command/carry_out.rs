//! A plan is carried out: shown as it goes on, written down, and stopped by Ctrl-C.

use std::path::PathBuf;

use talmox_engine::access::WriteFiles;
use talmox_engine::cluster_lock::Fence;
use talmox_engine::event::Events;
use talmox_engine::execute::Cancel;
use talmox_engine::run_log::RunLog;
use talmox_plan::plan::Plan;

use crate::args::Format;
use crate::error::CommandError;
use crate::interrupt::{self, Stops};
use crate::printer::Printer;
use crate::report::{self, Rest, Tally};
use crate::session::Session;
use crate::trace;

/// Carries the plan out and says how much was done, or why it did not get done. Runs of a lab that dies with us are not
/// written down.
pub(super) async fn carry_out(
    session: &Session,
    plan: &Plan,
    command: &str,
    write_files: WriteFiles,
    locks: Vec<Fence>,
    printer: &Printer,
) -> Result<Tally, CommandError> {
    let _heed = interrupt::heed();
    let log: Option<RunLog> = if session.is_alone() {
        None
    } else {
        report::log(
            &session.chosen.run_folder(),
            command,
            &plan.cluster,
            session.stage.is_some(),
            printer,
        )
    };
    let recording = log.as_ref().and_then(|log| trace::record(log, session.clock));
    let path: Option<PathBuf> = log.as_ref().map(|log| log.path().to_owned());
    let (events, listener) = Events::channel(session.clock);
    let cancel = Cancel::default();
    let is_rehearsal = session.is_alone();
    let watching = tokio::spawn(stop_cleanly(Stops::new()?, cancel.clone()));
    let running = async {
        let outcome = session.execute(plan, write_files, locks, &cancel, &events).await;
        drop(events);
        outcome
    };
    let (outcome, tally) =
        tokio::join!(running, report::follow(listener, log, session.clock, printer));
    watching.abort();
    drop(recording);
    if outcome.is_done() {
        if printer.format == Format::Text {
            printer.say(&tally.to_string());
        }
        return Ok(tally);
    }
    let rest = Rest { log: path.as_deref(), is_rehearsal };
    Err(report::not_done(&outcome, rest, printer))
}

/// The first signal stops the run, which the events tell; a second one ends the program.
async fn stop_cleanly(mut stops: Stops, cancel: Cancel) {
    stops.wanted().await;
    cancel.cancel();
}
