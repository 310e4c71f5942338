//! Execution of a plan, with progress output, run log and interrupt handling.

use std::path::PathBuf;

use talmox_engine::access::WriteFiles;
use talmox_engine::cluster_lock::Fence;
use talmox_engine::event::Events;
use talmox_engine::execute::Cancel;
use talmox_engine::run_log::RunLog;
use talmox_plan::plan::Plan;

use crate::args::Format;
use crate::error::CommandError;
use crate::interrupt::{self, StopSignals};
use crate::printer::Printer;
use crate::report::{self, ResumeInfo, RunTarget, Tally};
use crate::session::Session;
use crate::trace;

/// Executes a plan. Returns the number of finished steps, or the error of a failed run. A run in a lab inside this
/// process has no run log.
pub(super) async fn execute_plan(
    session: &Session,
    plan: &Plan,
    command: &str,
    write_files: WriteFiles,
    locks: Vec<Fence>,
    printer: &Printer,
) -> Result<Tally, CommandError> {
    let _guard = interrupt::guard();
    let log: Option<RunLog> = if session.is_own_lab() {
        None
    } else {
        report::log(
            &session.chosen.run_folder(),
            command,
            &plan.cluster,
            session.lab.is_some(),
            printer,
        )
    };
    let recording = log.as_ref().and_then(|log| trace::record(log, session.clock));
    let path: Option<PathBuf> = log.as_ref().map(|log| log.path().to_owned());
    let (events, listener) = Events::channel(session.clock);
    let cancel = Cancel::default();
    let is_rehearsal = session.is_own_lab();
    let watching = tokio::spawn(stop_cleanly(StopSignals::new()?, cancel.clone()));
    let running = async {
        let outcome = session.execute(plan, write_files, locks, &cancel, &events).await;
        drop(events);
        outcome
    };
    let target = match (session.is_own_lab(), session.lab.is_some()) {
        (true, _) => RunTarget::OwnLab,
        (false, true) => RunTarget::ServedLab,
        (false, false) => RunTarget::Real,
    };
    // The guard ends with the run: before and after it, trace lines have real time.
    let lab_time = session.lab.as_ref().and_then(|_| trace::show_lab_time(session.clock));
    let following = report::follow(listener, log, session.clock, target, printer);
    let (outcome, tally) = tokio::join!(running, following);
    watching.abort();
    drop(lab_time);
    drop(recording);
    if outcome.is_done() {
        if printer.format == Format::Text {
            printer.say(&tally.to_string());
        }
        return Ok(tally);
    }
    let rest = ResumeInfo { log: path.as_deref(), is_rehearsal };
    Err(report::not_done(&outcome, rest, printer))
}

/// Cancels the run at the first signal. A second signal ends the process.
async fn stop_cleanly(mut signals: StopSignals, cancel: Cancel) {
    signals.requested().await;
    cancel.cancel();
}
