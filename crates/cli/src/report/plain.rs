//! Events for people, line by line: what logs can keep.

use std::collections::BTreeMap;

use talmox_engine::event::{Event, Stamped, StepEnd};

use crate::printer::Printer;

#[derive(Debug, Default)]
pub(super) struct Plain {
    begun: Option<f64>,
    steps: usize,
    ended: usize,
    width: usize,
    /// Transfers: how many tenths have been told.
    tenths: BTreeMap<String, u64>,
}

impl Plain {
    pub(super) fn show(&mut self, event: &Stamped, printer: &Printer) {
        let begun = *self.begun.get_or_insert(event.time);
        let time = event.time - begun;
        let mut say = |sign: &str, color: &str, step: &str, text: &str| {
            let sign = printer.paint(sign, color);
            let line = format!("{time:7.1}s  {sign} {step:width$}  {text}", width = self.width);
            printer.say(line.trim_end());
        };
        match &event.what {
            Event::RunStarted { steps, .. } => {
                self.steps = steps.len();
                self.width =
                    steps.iter().map(|step| step.step.chars().count()).max().unwrap_or(0).min(48);
            }
            Event::StepStarted { .. } => {}
            Event::StepWaits { step, reason } => say("·", "2", step, reason),
            Event::StepNote { step, text } => say("!", "1;33", step, text),
            Event::StepRetries { step, attempt, reason, .. } => {
                say("↻", "33", step, &format!("attempt {attempt}: {reason}"));
            }
            Event::StepProgress { step, bytes, total } => {
                let Some(total) = total.filter(|total| *total > 0) else { return };
                let tenth = bytes * 10 / total;
                if self.tenths.insert(step.clone(), tenth) != Some(tenth) && tenth % 5 == 0 {
                    let mib = |bytes: u64| bytes >> 20;
                    say("·", "2", step, &format!("{} of {} MiB", mib(*bytes), mib(total)));
                }
            }
            Event::StepEnded { step, end, seconds } => {
                self.ended += 1;
                let count = format!("{}/{}", self.ended, self.steps);
                match end {
                    StepEnd::Done => say("✓", "32", step, &format!("{seconds:.1}s  {count}")),
                    StepEnd::Already => say("✓", "2", step, &format!("already  {count}")),
                    StepEnd::Failed { message, causes, hint } => {
                        let mut text = message.clone();
                        causes.iter().for_each(|cause| text.push_str(&format!(": {cause}")));
                        say("✗", "1;31", step, &text);
                        if let Some(hint) = hint {
                            printer.say(&format!(
                                "            {} {hint}",
                                printer.paint("hint:", "1;36")
                            ));
                        }
                    }
                    StepEnd::Blocked { by } => {
                        say("-", "2", step, &format!("not begun: {by} failed"))
                    }
                    StepEnd::Cancelled => say("-", "2", step, "stopped"),
                }
            }
            Event::RunEnded { .. } => {}
        }
    }
}
