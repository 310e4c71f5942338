//! Plain text view of a run: one line for each event, suitable for log files.

use std::collections::{BTreeMap, BTreeSet};

use talmox_engine::event::{Event, Stamped, StepEnd};

use super::RunTarget;
use crate::printer::Printer;
use crate::words;

/// Maximum width of the column of step names.
const WIDEST: usize = 48;
/// Minimum number of columns for the text beside a step name. With fewer columns, the text is printed on the next line.
const ROOM: usize = 30;

/// Output line about a step or about the run.
#[derive(Debug)]
pub(super) struct Line {
    time: f64,
    sign: &'static str,
    color: &'static str,
    step: String,
    text: String,
    hint: Option<String>,
    /// Whether the next event of the step makes the line outdated, as with a wait or a progress. The live view does not
    /// print such a line.
    pub(super) is_passing: bool,
}

#[derive(Debug, Default)]
pub(super) struct Plain {
    started: Option<f64>,
    target: RunTarget,
    steps: usize,
    /// Number of finished steps. Cancelled and skipped steps are not counted, so that the number agrees with the last
    /// line of the run.
    done: usize,
    /// Running steps.
    running: BTreeSet<String>,
    width: usize,
    /// Last reported progress of each transfer, in tenths.
    tenths: BTreeMap<String, u64>,
}

impl Plain {
    /// View of a run.
    pub(super) fn new(target: RunTarget) -> Self {
        Self { target, ..Self::default() }
    }

    /// Unit of the times, with a leading blank. Empty for real time.
    pub(super) fn time_unit(&self) -> &'static str {
        if self.target.has_lab_time() { " of lab time" } else { "" }
    }

    /// Number of finished steps, and number of all steps.
    pub(super) fn count(&self) -> (usize, usize) {
        (self.done, self.steps)
    }

    /// Seconds since the start of the run.
    pub(super) fn elapsed(&self, now: f64) -> f64 {
        now - self.started.unwrap_or(now)
    }

    /// Processes an event, and returns the line to print for this event.
    pub(super) fn take(&mut self, event: &Stamped) -> Option<Line> {
        let started = *self.started.get_or_insert(event.time);
        let time = event.time - started;
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
                let text = self.stopping();
                Some(line("!", "1;33", "", text))
            }
            Event::RunStarted { steps, .. } => {
                self.steps = steps.len();
                let widths = steps.iter().map(|step| step.step.chars().count());
                self.width = widths.max().unwrap_or(0).min(WIDEST);
                let is_lab = self.target.has_lab_time();
                is_lab.then(|| line("-", "2", "", "all times are lab time".to_owned()))
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
                let is_reported = self.tenths.insert(step.clone(), tenth) == Some(tenth);
                let text = words::transferred(*bytes, total);
                let is_due = !is_reported && tenth % 5 == 0;
                is_due.then(|| Line { is_passing: true, ..line("·", "2", step, text) })
            }
            Event::StepEnded { step, end, seconds } => {
                self.done += usize::from(matches!(end, StepEnd::Done | StepEnd::Already));
                let was_running = self.running.remove(step);
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
                    // Steps that did not start are counted at the end of the run. One line for each of them would hide
                    // the cause.
                    StepEnd::Blocked { .. } | StepEnd::Cancelled if !was_running => return None,
                    StepEnd::Blocked { by } => {
                        line("-", "2", step, format!("skipped: {by} failed"))
                    }
                    StepEnd::Cancelled => line("-", "2", step, "cancelled".to_owned()),
                })
            }
            Event::RunEnded { .. } => None,
        }
    }

    /// Message after an interrupt: the steps that are done, the running steps, and how to continue.
    fn stopping(&self) -> String {
        let running: Vec<&str> = self.running.iter().map(String::as_str).collect();
        let running = match running.as_slice() {
            [] => "no step is running".to_owned(),
            [one] => format!("{one} is finishing"),
            [one, other] => format!("{one} and {other} are finishing"),
            [one, more @ ..] => format!("{one} and {} more steps are finishing", more.len()),
        };
        let done = format!("{} of {} steps are done", self.done, self.steps);
        let next = if self.target.remains() {
            "The same command resumes the run. Ctrl-C again quits at once; Proxmox still finishes its running tasks"
        } else {
            "Ctrl-C again quits at once"
        };
        format!("Stopping: {done}, and {running}. {next}")
    }

    /// Text of a line. The text is wrapped to `columns`, if given.
    pub(super) fn text(&self, line: &Line, columns: Option<usize>, printer: &Printer) -> String {
        let Line { time, sign, color, step, text, hint, .. } = line;
        let sign = printer.paint(sign, color);
        let indent = 12;
        // On a narrow terminal, a few long step names must not move the texts of all steps to the next line.
        let most = columns.map_or(usize::MAX, |columns| columns.saturating_sub(indent + ROOM + 2));
        // A line about the whole run has no step name.
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
