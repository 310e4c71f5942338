//! How a run is shown while it goes on. Reporters see events and nothing else.

mod failure;
mod json;
mod live;
mod plain;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_engine::event::{Event, Stamped, StepEnd, StepInfo};
use talmox_engine::run_log::RunLog;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::args::Format;
use crate::disk;
use crate::printer::{Printer, Size};
use crate::trace::{self, HeldLines};
use crate::visible;
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
    // Lines about what is done would be drawn over.
    let traced = if matches!(view, View::Live(_)) { trace::hold() } else { None };
    let real = Clock::real();
    let mut due = real.deadline(FRAME);
    loop {
        let event = if matches!(view, View::Live(_)) {
            tokio::select! {
                biased;
                () = real.sleep(due.left()) => {
                    due = real.deadline(FRAME);
                    view.draw(clock, traced.as_ref(), printer);
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
        live.say(traced.as_ref().map(HeldLines::take).unwrap_or_default());
        printer.draw(&live.finish(size_now(printer), printer));
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
        if let Some(line) = plain.take(&visible_event(event)) {
            text.push_str(&plain.text(&line, None, printer));
        }
    }
    text
}

/// An event in whose texts everything is visible, so that lines have the width that they are given, and a view may move the cursor.
fn visible_event(event: &Stamped) -> Stamped {
    let clean = |text: &String| visible::plain(text).into_owned();
    let what = match &event.what {
        Event::RunStarted { cluster, steps } => {
            let steps = steps.iter().map(|one| StepInfo {
                step: clean(&one.step),
                node: one.node.as_ref().map(clean),
                after: one.after.iter().map(clean).collect(),
            });
            Event::RunStarted { cluster: clean(cluster), steps: steps.collect() }
        }
        Event::StepStarted { step } => Event::StepStarted { step: clean(step) },
        Event::StepWaits { step, reason } => {
            Event::StepWaits { step: clean(step), reason: clean(reason) }
        }
        Event::StepProgress { step, bytes, total } => {
            Event::StepProgress { step: clean(step), bytes: *bytes, total: *total }
        }
        Event::StepNote { step, text } => Event::StepNote { step: clean(step), text: clean(text) },
        Event::StepRetries { step, attempt, seconds, reason } => Event::StepRetries {
            step: clean(step),
            attempt: *attempt,
            seconds: *seconds,
            reason: clean(reason),
        },
        Event::StepEnded { step, end, seconds } => {
            let end = match end {
                StepEnd::Failed { code, message, causes, hint } => StepEnd::Failed {
                    code: code.as_ref().map(clean),
                    message: clean(message),
                    causes: causes.iter().map(clean).collect(),
                    hint: hint.as_ref().map(clean),
                },
                StepEnd::Blocked { by } => StepEnd::Blocked { by: clean(by) },
                StepEnd::Done | StepEnd::Already | StepEnd::Cancelled => end.clone(),
            };
            Event::StepEnded { step: clean(step), end, seconds: *seconds }
        }
        Event::RunStopping | Event::RunEnded { .. } => event.what.clone(),
    };
    Stamped { time: event.time, what }
}

enum View {
    Quiet,
    Json,
    Plain(Plain),
    Live(Live),
}

impl View {
    fn of(printer: &Printer) -> Self {
        match (printer.format, printer.size()) {
            (Format::Json, _) => Self::Json,
            (Format::Text, _) if printer.is_quiet => Self::Quiet,
            (Format::Text, Some(_)) => Self::Live(Live::default()),
            (Format::Text, None) => Self::Plain(Plain::default()),
        }
    }

    fn show(&mut self, event: &Stamped, printer: &Printer) {
        match self {
            Self::Quiet => {}
            Self::Json => json::show(event, printer),
            Self::Live(live) => live.take(&visible_event(event)),
            Self::Plain(plain) => {
                if let Some(line) = plain.take(&visible_event(event)) {
                    printer.say_raw(&plain.text(&line, None, printer));
                }
            }
        }
    }

    fn draw(&mut self, clock: Clock, traced: Option<&HeldLines>, printer: &Printer) {
        if let Self::Live(live) = self {
            live.say(traced.map(HeldLines::take).unwrap_or_default());
            let size = size_now(printer);
            printer.draw(&live.draw(clock.since_epoch().as_secs_f64(), size, printer));
        }
    }
}

/// Begins the log of a run. One that cannot be written is no reason not to run.
pub(crate) fn log(
    folder: &Path,
    command: &str,
    cluster: &str,
    is_lab: bool,
    printer: &Printer,
) -> Option<RunLog> {
    let now = Clock::real().since_epoch().as_secs_f64();
    let runs = folder.join("runs");
    // The author of an inventory could otherwise choose the folder that logs are written to.
    let opened = disk::refuse_link(&runs).map_err(|error| error.chain()).and_then(|()| {
        RunLog::begin(&runs, command, cluster, now, is_lab).map_err(|error| error.to_string())
    });
    match opened {
        Ok(log) => Some(log),
        Err(reason) => {
            printer.warn(&format!("there is no log of this run: {reason}"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::args::Color;

    /// Whether something besides the view's own movements and colours would be obeyed by a terminal.
    fn is_obeyed(drawn: &str) -> bool {
        let rows = (0..40).map(|rows| format!("\r\x1b[{rows}A\x1b[J"));
        let colors = ["0", "1", "2", "32", "33", "1;31", "1;33", "1;36"];
        let colors = colors.iter().map(|sgr| format!("\x1b[{sgr}m"));
        let own = rows.chain(colors);
        let rest = own.fold(visible::drawn(drawn), |text, own| text.replace(&own, ""));
        rest.replace("\r\n", "\n").chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t'))
    }

    proptest! {
        #[test]
        fn no_text_of_an_event_controls_the_terminal(text in "(?s).{0,40}", colors: bool) {
            let color = if colors { Color::Always } else { Color::Never };
            let printer = Printer::new(Format::Text, color);
            let size = Size { columns: 60, rows: 24 };
            let step = || text.clone();
            let info = StepInfo { step: step(), node: Some(step()), after: vec![step()] };
            let failed = StepEnd::Failed {
                code: Some(step()),
                message: step(),
                causes: vec![step()],
                hint: Some(step()),
            };
            let events = [
                Event::RunStarted { cluster: step(), steps: vec![info] },
                Event::StepStarted { step: step() },
                Event::StepWaits { step: step(), reason: step() },
                Event::StepProgress { step: step(), bytes: 5, total: Some(10) },
                Event::StepNote { step: step(), text: step() },
                Event::StepRetries { step: step(), attempt: 2, seconds: 1.0, reason: step() },
                Event::RunStopping,
                Event::StepEnded { step: step(), end: failed, seconds: 1.0 },
                Event::StepEnded { step: step(), end: StepEnd::Blocked { by: step() }, seconds: 1.0 },
            ];
            let events: Vec<Stamped> =
                events.into_iter().map(|what| Stamped { time: 1.0, what }).collect();
            let mut live = Live::default();
            for event in &events {
                live.take(&visible_event(event));
                let drawn = live.draw(2.0, size, &printer);
                prop_assert!(!is_obeyed(&drawn), "{drawn:?}");
            }
            let finished = live.finish(size, &printer);
            prop_assert!(!is_obeyed(&finished), "{finished:?}");
            let replayed = replay(&events, &printer);
            let shown = visible::shown(&replayed, visible::Escapes::Text);
            prop_assert!(!is_obeyed(&shown), "{shown:?}");
        }
    }
}
