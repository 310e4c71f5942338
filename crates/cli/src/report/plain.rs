//! Events for people, line by line: what logs can keep.

use std::collections::{BTreeMap, BTreeSet};

use talmox_engine::event::{Event, Stamped, StepEnd};

use crate::printer::Printer;
use crate::words;

/// Beyond this the names of steps are not lined up.
const WIDEST: usize = 48;
/// A text beside the name of its step must have so much room, else it goes below it.
const ROOM: usize = 30;

/// Something to be said about a step.
#[derive(Debug)]
pub(super) struct Line {
    time: f64,
    sign: &'static str,
    color: &'static str,
    step: String,
    text: String,
    hint: Option<String>,
    /// Whether it is over when the next one comes.
    pub(super) is_passing: bool,
}

#[derive(Debug, Default)]
pub(super) struct Plain {
    begun: Option<f64>,
    steps: usize,
    /// Steps that are done. What was cancelled or skipped is not, so that this agrees with the last line of the run.
    done: usize,
    /// What goes on.
    running: BTreeSet<String>,
    width: usize,
    /// Transfers: how many tenths have been told.
    tenths: BTreeMap<String, u64>,
}

impl Plain {
    /// How far it is: steps that are done, and all of them.
    pub(super) fn count(&self) -> (usize, usize) {
        (self.done, self.steps)
    }

    /// Seconds since the run began.
    pub(super) fn elapsed(&self, now: f64) -> f64 {
        now - self.begun.unwrap_or(now)
    }

    /// What is to be said about an event.
    pub(super) fn take(&mut self, event: &Stamped) -> Option<Line> {
        let begun = *self.begun.get_or_insert(event.time);
        let time = event.time - begun;
        let line = |sign, color, step: &str, text: String| Line {
            time,
            sign,
            color,
            step: step.to_owned(),
            text,
            hint: None,
            is_passing: false,
        };
        match &event.what {
            Event::StepStarted { step } => {
                self.running.insert(step.clone());
                None
            }
            Event::RunStopping => {
                let running: Vec<&str> = self.running.iter().map(String::as_str).collect();
                let text = stopping(&running);
                Some(line("!", "1;33", "", text))
            }
            Event::RunStarted { steps, .. } => {
                self.steps = steps.len();
                let widths = steps.iter().map(|step| step.step.chars().count());
                self.width = widths.max().unwrap_or(0).min(WIDEST);
                None
            }
            Event::StepWaits { step, reason } => {
                Some(Line { is_passing: true, ..line("·", "2", step, reason.clone()) })
            }
            Event::StepNote { step, text } => Some(line("!", "1;33", step, text.clone())),
            Event::StepRetries { step, attempt, reason, .. } => {
                Some(line("↻", "33", step, format!("attempt {attempt}: {reason}")))
            }
            Event::StepProgress { step, bytes, total } => {
                let total = total.filter(|total| *total > 0)?;
                let tenth = bytes * 10 / total;
                let is_told = self.tenths.insert(step.clone(), tenth) == Some(tenth);
                let text = format!("{} of {} MiB", bytes >> 20, total >> 20);
                let is_due = !is_told && tenth % 5 == 0;
                is_due.then(|| Line { is_passing: true, ..line("·", "2", step, text) })
            }
            Event::StepEnded { step, end, seconds } => {
                self.done += usize::from(matches!(end, StepEnd::Done | StepEnd::Already));
                let has_begun = self.running.remove(step);
                let count = format!("{}/{}", self.done, self.steps);
                Some(match end {
                    StepEnd::Already => line("✓", "2", step, format!("already  {count}")),
                    StepEnd::Done => line("✓", "32", step, format!("done {seconds:.1}s  {count}")),
                    StepEnd::Failed { code, message, causes, hint } => {
                        let mut text = match code {
                            Some(code) => format!("error[{code}]: {message}"),
                            None => message.clone(),
                        };
                        for cause in causes {
                            text.push_str(&format!(": {cause}"));
                        }
                        Line { hint: hint.clone(), ..line("✗", "1;31", step, text) }
                    }
                    // What has not begun is counted in the end: a line for each would bury the cause.
                    StepEnd::Blocked { .. } | StepEnd::Cancelled if !has_begun => return None,
                    StepEnd::Blocked { by } => {
                        line("-", "2", step, format!("waits in vain: {by} did not get done"))
                    }
                    StepEnd::Cancelled => line("-", "2", step, "stopped".to_owned()),
                })
            }
            Event::RunEnded { .. } => None,
        }
    }

    /// The line as it is printed, within so many columns if there is such a limit.
    pub(super) fn text(&self, line: &Line, columns: Option<usize>, printer: &Printer) -> String {
        let Line { time, sign, color, step, text, hint, .. } = line;
        let sign = printer.paint(sign, color);
        let indent = 12;
        // Where there is little room, a few long names must not push all texts below the names.
        let most = columns.map_or(usize::MAX, |columns| columns.saturating_sub(indent + ROOM + 2));
        // What is about the whole run has no step before it.
        let width = match step.chars().count() {
            0 => 0,
            length => self.width.min(most).max(length) + 2,
        };
        let head = format!("{time:7.1}s  {sign} {step:width$}");
        let beside = indent + width;
        let mut out = match columns {
            None => format!("{head}{text}"),
            Some(columns)
                if beside + ROOM <= columns || beside + text.chars().count() < columns =>
            {
                let rest = words::wrapped(text, columns.saturating_sub(beside));
                format!("{head}{}", rest.join(&format!("\n{:beside$}", "")))
            }
            Some(columns) => {
                let rest = words::wrapped(text, columns.saturating_sub(indent));
                format!(
                    "{}\n{:indent$}{}",
                    head.trim_end(),
                    "",
                    rest.join(&format!("\n{:indent$}", ""))
                )
            }
        };
        out.truncate(out.trim_end().len());
        out.push('\n');
        if let Some(hint) = hint {
            let width = columns.map_or(usize::MAX, |columns| columns.saturating_sub(indent + 6));
            for (index, part) in
                hint.lines().flat_map(|line| words::wrapped(line, width)).enumerate()
            {
                let label =
                    if index == 0 { printer.paint("hint:", "1;36") } else { "     ".to_owned() };
                out.push_str(&format!("{:indent$}{label} {part}\n", ""));
            }
        }
        out
    }
}

/// What is said when somebody wants to stop.
fn stopping(running: &[&str]) -> String {
    let what = match running {
        [] => "nothing new is begun".to_owned(),
        [one] => format!("{one} still ends what it has begun"),
        [one, other] => format!("{one} and {other} still end what they have begun"),
        [one, more @ ..] => format!("{one} and {} more still end what they have begun", more.len()),
    };
    format!("Stopping: {what}. Ctrl-C again quits at once; what Proxmox has begun goes on there")
}
