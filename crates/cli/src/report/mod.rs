//! How a run is shown while it goes on. Reporters see events and nothing else.

mod failure;
mod json;
mod live;
mod plain;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_engine::event::{Event, Stamped, StepEnd};
use talmox_engine::run_log::RunLog;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::args::Format;
use crate::printer::{Printer, Size};
pub(crate) use failure::{Rest, not_done};
use live::Live;
use plain::Plain;

/// Between two drawings of the live view.
const FRAME: Duration = Duration::from_millis(150);

/// How many steps did something, and how many found it done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) done: usize,
    pub(crate) already: usize,
}

impl Tally {
    fn count(&mut self, event: &Stamped) {
        match &event.what {
            Event::StepEnded { end: StepEnd::Done, .. } => self.done += 1,
            Event::StepEnded { end: StepEnd::Already, .. } => self.already += 1,
            _ => {}
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { done, already } = self;
        let steps = if *done == 1 { "step" } else { "steps" };
        match already {
            0 => write!(f, "{done} {steps} done."),
            1 => write!(f, "{done} {steps} done, 1 was done already."),
            _ => write!(f, "{done} {steps} done, {already} were done already."),
        }
    }
}

/// Shows events as they come, and writes them down, until the run ends. `clock` is the one that
/// stamps them.
pub(crate) async fn follow(
    mut events: UnboundedReceiver<Stamped>,
    mut log: Option<RunLog>,
    clock: Clock,
    printer: &Printer,
) -> Tally {
    let mut tally = Tally::default();
    let mut view = View::of(printer);
    let real = Clock::real();
    let mut due = real.deadline(FRAME);
    loop {
        let event = if matches!(view, View::Live(_)) {
            tokio::select! {
                biased;
                () = real.sleep(due.left()) => {
                    due = real.deadline(FRAME);
                    view.draw(clock, printer);
                    continue;
                }
                event = events.recv() => event,
            }
        } else {
            events.recv().await
        };
        let Some(event) = event else { break };
        // A full disk must not stop a run that goes well.
        if let Some(open) = &mut log
            && let Err(error) = open.write(&event)
        {
            printer.warn(&format!("the run log {} ends here: {error}", open.path().display()));
            log = None;
        }
        tally.count(&event);
        view.show(&event, printer);
    }
    if let View::Live(live) = &mut view {
        printer.say_raw(&live.finish(size_now(printer), printer));
    }
    tally
}

/// The size of the terminal, which may have changed since the last look, or be kept to itself.
fn size_now(printer: &Printer) -> Size {
    printer.terminal().unwrap_or(Size { columns: 80, rows: 24 })
}

/// What is told of a run that is over, line by line.
pub(crate) fn replay(events: &[Stamped], printer: &Printer) -> String {
    let mut plain = Plain::default();
    let mut text = String::new();
    for event in events {
        if let Some(line) = plain.take(event) {
            text.push_str(&plain.text(&line, None, printer));
        }
    }
    text
}

enum View {
    Json,
    Plain(Plain),
    Live(Live),
}

impl View {
    fn of(printer: &Printer) -> Self {
        match (printer.format, printer.size()) {
            (Format::Json, _) => Self::Json,
            (Format::Text, Some(_)) => Self::Live(Live::default()),
            (Format::Text, None) => Self::Plain(Plain::default()),
        }
    }

    fn show(&mut self, event: &Stamped, printer: &Printer) {
        match self {
            Self::Json => json::show(event, printer),
            Self::Live(live) => live.take(event),
            Self::Plain(plain) => {
                if let Some(line) = plain.take(event) {
                    printer.say_raw(&plain.text(&line, None, printer));
                }
            }
        }
    }

    fn draw(&mut self, clock: Clock, printer: &Printer) {
        if let Self::Live(live) = self {
            let size = size_now(printer);
            printer.say_raw(&live.draw(clock.since_epoch().as_secs_f64(), size, printer));
        }
    }
}

/// Begins the log of a run. One that cannot be written is no reason not to run.
pub(crate) fn log(
    folder: &Path,
    command: &str,
    cluster: &str,
    printer: &Printer,
) -> Option<RunLog> {
    let now = Clock::real().since_epoch().as_secs_f64();
    match RunLog::begin(&folder.join("runs"), command, cluster, now) {
        Ok(log) => Some(log),
        Err(error) => {
            printer.warn(&format!("there is no log of this run: {error}"));
            None
        }
    }
}
