//! A plan is carried out: shown as it goes on, written down, and stopped by Ctrl-C.

use std::io;
use std::path::PathBuf;

use talmox_engine::access::WriteFiles;
use talmox_engine::event::Events;
use talmox_engine::execute::Cancel;
use talmox_engine::plan::Plan;
use talmox_engine::run_log::RunLog;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::CommandError;
use crate::printer::Printer;
use crate::report::{self, Rest};
use crate::session::{Session, run_folder};

/// Carries the plan out, or says why it did not get done. Runs of a lab that dies with us are not
/// written down.
pub(super) async fn carry_out(
    session: &Session,
    plan: &Plan,
    command: &str,
    write_files: WriteFiles,
    printer: &Printer,
) -> Result<(), CommandError> {
    let log: Option<RunLog> = if session.is_alone() {
        None
    } else {
        report::log(&run_folder(&session.folder()), command, &plan.cluster, printer)
    };
    let path: Option<PathBuf> = log.as_ref().map(|log| log.path().to_owned());
    let (events, listener) = Events::channel(session.clock);
    let cancel = Cancel::default();
    let is_rehearsal = session.is_alone();
    // From here on nothing is broken off halfway, not even before the first step.
    let watching = Interrupts::new()
        .map(|all| tokio::spawn(watch(all, cancel.clone(), printer.clone(), is_rehearsal)));
    let running = async {
        let outcome = session.execute(plan, write_files, &cancel, &events).await;
        drop(events);
        outcome
    };
    let (outcome, ()) =
        tokio::join!(running, report::follow(listener, log, session.clock, printer));
    if let Ok(watching) = watching {
        watching.abort();
    }
    if outcome.is_done() {
        return Ok(());
    }
    let rest = Rest { log: path.as_deref(), is_rehearsal };
    Err(report::not_done(&outcome, rest, printer))
}

/// Ctrl-C, and what service managers send.
struct Interrupts {
    interrupted: Signal,
    terminated: Signal,
}

impl Interrupts {
    fn new() -> io::Result<Self> {
        let interrupted = signal(SignalKind::interrupt())?;
        Ok(Self { interrupted, terminated: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupted.recv() => {}
            _ = self.terminated.recv() => {}
        }
    }
}

/// The first Ctrl-C stops cleanly, which the events tell; a second one quits at once.
async fn watch(mut interrupts: Interrupts, cancel: Cancel, printer: Printer, is_rehearsal: bool) {
    interrupts.next().await;
    cancel.cancel();
    interrupts.next().await;
    printer.say(if is_rehearsal {
        "\nQuit at once, and the lab with it."
    } else {
        "\nQuit at once. What Proxmox has begun goes on there; the same command finds it and goes on."
    });
    #[expect(clippy::exit, clippy::disallowed_methods, reason = "somebody insists")]
    std::process::exit(130);
}
