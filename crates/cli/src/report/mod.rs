//! Views of a run while it executes. The only input of a view is the events of the run.

mod failure;
mod json;
mod live;
mod plain;
mod run_target;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_engine::event::{Event, Stamped, StepEnd, StepInfo};
use talmox_engine::run_log::RunLog;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::args::Format;
use crate::disk;
use crate::escape;
use crate::printer::{Printer, Size};
use crate::trace::{self, HeldLines};
pub(crate) use failure::{ResumeInfo, not_done};
use live::Live;
use plain::Plain;
pub(crate) use run_target::RunTarget;

/// Interval between two drawings of the live view.
const FRAME: Duration = Duration::from_millis(150);

/// Number of steps that made a change, and of steps that had nothing to do.
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
            1 => write!(f, "{done} {steps} done, 1 step had nothing to do."),
            _ => write!(f, "{done} {steps} done, {already} steps had nothing to do."),
        }
    }
}

/// Shows the events of a run and writes them to the run log, until the run ends. `clock` is the clock of the events.
pub(crate) async fn follow(
    mut events: UnboundedReceiver<Stamped>,
    mut log: Option<RunLog>,
    clock: Clock,
    target: RunTarget,
    printer: &Printer,
) -> Tally {
    let mut tally = Tally::default();
    let mut view = View::of(printer, target);
    // The live view would overwrite trace lines on the terminal, so the view prints the trace lines itself.
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
        // An error of the run log, such as a full disk, must not stop the run.
        if let Some(open) = &mut log
            && let Err(error) = open.write(&event)
        {
            printer.warn(&format!(
                "the run log {} is incomplete from here on: {error}",
                open.path().display()
            ));
            log = None;
        }
        tally.count(&event);
        view.show(&event, printer);
    }
    if let View::Live(live) = &mut view {
        live.add_trace_lines(traced.as_ref().map(HeldLines::take).unwrap_or_default());
        printer.draw(&live.finish(size_now(printer), printer));
    }
    tally
}

/// Current size of the terminal. 80 columns and 24 rows if the terminal does not report a size.
fn size_now(printer: &Printer) -> Size {
    printer.terminal().unwrap_or(Size { columns: 80, rows: 24 })
}

/// Plain text view of a past run. If `is_lab` is true, times are shown as lab time.
pub(crate) fn replay(events: &[Stamped], is_lab: bool, printer: &Printer) -> String {
    let target = if is_lab { RunTarget::ServedLab } else { RunTarget::Real };
    let mut plain = Plain::new(target);
    let mut text = String::new();
    for event in events {
        if let Some(line) = plain.take(&escaped_event(event)) {
            text.push_str(&plain.text(&line, None, printer));
        }
    }
    text
}

/// Escapes control characters in the texts of an event. Otherwise the computed text widths would be wrong, and a text
/// could move the cursor in the live view.
fn escaped_event(event: &Stamped) -> Stamped {
    // Line ends of Windows are replaced, because the live view may cut a text anywhere. A carriage return that is left
    // alone would move the cursor.
    let clean = |text: &String| escape::plain(text).replace("\r\n", "\n");
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
    fn of(printer: &Printer, target: RunTarget) -> Self {
        match (printer.format, printer.size()) {
            (Format::Json, _) => Self::Json,
            (Format::Text, _) if printer.is_quiet => Self::Quiet,
            (Format::Text, Some(_)) => Self::Live(Live::new(target)),
            (Format::Text, None) => Self::Plain(Plain::new(target)),
        }
    }

    fn show(&mut self, event: &Stamped, printer: &Printer) {
        match self {
            Self::Quiet => {}
            Self::Json => json::show(event, printer),
            Self::Live(live) => live.take(&escaped_event(event)),
            Self::Plain(plain) => {
                if let Some(line) = plain.take(&escaped_event(event)) {
                    printer.say_raw(&plain.text(&line, None, printer));
                }
            }
        }
    }

    fn draw(&mut self, clock: Clock, traced: Option<&HeldLines>, printer: &Printer) {
        if let Self::Live(live) = self {
            live.add_trace_lines(traced.map(HeldLines::take).unwrap_or_default());
            let size = size_now(printer);
            printer.draw(&live.draw(clock.since_epoch().as_secs_f64(), size, printer));
        }
    }
}

/// Creates the run log. If that fails, a warning is printed and the run continues without a run log.
pub(crate) fn log(
    folder: &Path,
    command: &str,
    cluster: &str,
    is_lab: bool,
    printer: &Printer,
) -> Option<RunLog> {
    let now = Clock::real().since_epoch().as_secs_f64();
    let runs = folder.join("runs");
    // A link is rejected, because a link in the repository could redirect the run logs to any folder.
    let opened = disk::refuse_link(&runs).map_err(|error| error.chain()).and_then(|()| {
        RunLog::begin(&runs, command, cluster, now, is_lab).map_err(|error| error.to_string())
    });
    match opened {
        Ok(log) => Some(log),
        Err(reason) => {
            printer.warn(&format!("this run is not logged: {reason}"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::args::Color;

    /// Whether an output contains control characters other than the cursor movements and colours of the live view.
    fn has_control_characters(drawn: &str) -> bool {
        let rows = (0..40).map(|rows| format!("\r\x1b[{rows}A\x1b[J"));
        let colors = ["0", "1", "2", "32", "33", "1;31", "1;33", "1;36"];
        let colors = colors.iter().map(|sgr| format!("\x1b[{sgr}m"));
        let own = rows.chain(colors);
        let rest = own.fold(escape::drawn(drawn), |text, own| text.replace(&own, ""));
        rest.replace("\r\n", "\n").chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t'))
    }

    #[test]
    fn a_cut_line_end_of_windows_moves_no_cursor() {
        let printer = Printer::new(Format::Text, Color::Never);
        for columns in 10..80 {
            let mut live = Live::default();
            let step = || "wait".to_owned();
            let info = StepInfo { step: step(), node: None, after: vec![] };
            for what in [
                Event::RunStarted { cluster: step(), steps: vec![info] },
                Event::StepStarted { step: step() },
                Event::StepWaits { step: step(), reason: "one\r\ntwo\r\nthree".to_owned() },
            ] {
                live.take(&escaped_event(&Stamped { time: 1.0, what }));
            }
            let drawn = live.draw(2.0, Size { columns, rows: 24 }, &printer);
            assert!(!has_control_characters(&drawn), "{columns}: {drawn:?}");
        }
    }

    proptest! {
        #[test]
        fn events_cannot_control_the_terminal(text in "(?s).{0,40}", colors: bool) {
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
                live.take(&escaped_event(event));
                let drawn = live.draw(2.0, size, &printer);
                prop_assert!(!has_control_characters(&drawn), "{drawn:?}");
            }
            let finished = live.finish(size, &printer);
            prop_assert!(!has_control_characters(&finished), "{finished:?}");
            let replayed = replay(&events, false, &printer);
            let shown = escape::shown(&replayed, escape::EscapeSyntax::Text);
            prop_assert!(!has_control_characters(&shown), "{shown:?}");
        }
    }
}
