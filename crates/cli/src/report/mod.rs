//! How a run is shown while it goes on. Reporters see events and nothing else.

mod json;
mod plain;

use std::path::Path;

use talmox_engine::event::Stamped;
use talmox_engine::run_log::RunLog;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::args::Format;
use crate::error::CommandError;
use crate::printer::Printer;

/// Shows events as they come, and writes them down, until the run ends.
pub(crate) async fn follow(
    mut events: UnboundedReceiver<Stamped>,
    mut log: Option<RunLog>,
    printer: &Printer,
) {
    let mut plain = plain::Plain::default();
    while let Some(event) = events.recv().await {
        // A full disk must not stop a run that goes well.
        if let Some(open) = &mut log
            && let Err(error) = open.write(&event)
        {
            printer.warn(&format!("the run log {} ends here: {error}", open.path().display()));
            log = None;
        }
        match printer.format {
            Format::Json => json::show(&event, printer),
            Format::Text => plain.show(&event, printer),
        }
    }
}

/// Begins the log of a run.
pub(crate) fn log(
    folder: &Path,
    command: &str,
    cluster: &str,
    printer: &Printer,
) -> Result<Option<RunLog>, CommandError> {
    let now = talmox_clock::Clock::real().since_epoch().as_secs_f64();
    match RunLog::begin(&folder.join("runs"), command, cluster, now) {
        Ok(log) => Ok(Some(log)),
        Err(error) => {
            printer.warn(&format!("there is no log of this run: {error}"));
            Ok(None)
        }
    }
}
