//! A plan is carried out: shown as it goes on, written down, and stopped by Ctrl-C.

use std::path::PathBuf;

use talmox_engine::access::WriteFiles;
use talmox_engine::event::Events;
use talmox_engine::execute::{Cancel, Outcome};
use talmox_engine::plan::Plan;
use talmox_engine::run_log::RunLog;
use tokio::signal::unix::{SignalKind, signal};

use crate::printer::Printer;
use crate::report;
use crate::session::{Session, run_folder};

/// A run that has ended.
pub(super) struct Carried {
    pub(super) outcome: Outcome,
    /// Where it was written down.
    pub(super) log: Option<PathBuf>,
}

/// Carries the plan out. Runs of a lab that dies with us are not written down.
pub(super) async fn carry_out(
    session: &Session,
    plan: &Plan,
    command: &str,
    write_files: WriteFiles,
    printer: &Printer,
) -> Carried {
    let log: Option<RunLog> = if session.is_alone() {
        None
    } else {
        report::log(&run_folder(&session.folder()), command, &plan.cluster, printer)
    };
    let path = log.as_ref().map(|log| log.path().to_owned());
    let (events, listener) = Events::channel(session.clock);
    let cancel = Cancel::default();
    let watching = tokio::spawn(watch_for_interrupts(cancel.clone(), printer.clone()));
    let running = async {
        let outcome = session.execute(plan, write_files, &cancel, &events).await;
        drop(events);
        outcome
    };
    let (outcome, ()) =
        tokio::join!(running, report::follow(listener, log, session.clock, printer));
    watching.abort();
    Carried { outcome, log: path }
}

/// The first Ctrl-C stops cleanly, a second one at once.
async fn watch_for_interrupts(cancel: Cancel, printer: Printer) {
    let Ok(mut interrupted) = signal(SignalKind::interrupt()) else { return };
    let Ok(mut terminated) = signal(SignalKind::terminate()) else { return };
    tokio::select! {
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
    }
    cancel.cancel();
    printer.say("\nStopping: what has begun is finished first. Ctrl-C again stops at once.");
    interrupted.recv().await;
    #[expect(clippy::exit, clippy::disallowed_methods, reason = "somebody insists")]
    std::process::exit(130);
}
