//! What is said at the end of a run that did not get done: every cause once, with what can be done
//! about it, and how to go on.

use std::path::Path;

use talmox_engine::event::RunEnd;
use talmox_engine::execute::{Outcome, StepResult};
use talmox_engine::step::StepError;
use talmox_plan::plan::StepId;

use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::words;

/// How a run can be gone on with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest<'a> {
    /// Where it was written down.
    pub(crate) log: Option<&'a Path>,
    /// Whether all that was made ends with this program.
    pub(crate) is_rehearsal: bool,
}

/// The error of a run that did not get done.
pub(crate) fn not_done(outcome: &Outcome, rest: Rest<'_>, printer: &Printer) -> CommandError {
    let all = outcome.steps.len();
    if outcome.end != RunEnd::Failed {
        let is_done =
            |result: &StepResult| matches!(result, StepResult::Done | StepResult::Already);
        let done = outcome.steps.iter().filter(|(_, result)| is_done(result)).count();
        let message = format!("stopped: {done} of {all} steps are done");
        return CommandError::failed(CommandCode::Interrupted, message).hint(
            if rest.is_rehearsal {
                "the lab ended with it: the same command begins anew"
            } else {
                "the same command goes on from here; nothing has to be undone"
            },
        );
    }
    let failures: Vec<_> = outcome.failures().collect();
    let mut message = match (failures.len(), outcome.blocked()) {
        (failed, 0) => format!("{failed} of {all} steps failed"),
        (failed, 1) => format!("{failed} of {all} steps failed, and 1 more needs what failed"),
        (failed, more) => {
            format!("{failed} of {all} steps failed, and {more} more need what failed")
        }
    };
    message.push('\n');
    message.push_str(&causes(&failures, printer));
    CommandError::failed(CommandCode::StepsFailed, message.trim_end()).hint(how_to_go_on(rest))
}

fn how_to_go_on(rest: Rest<'_>) -> String {
    match rest {
        Rest { is_rehearsal: true, .. } => {
            "the lab ended with it: when the cause is gone, the same command begins anew".to_owned()
        }
        Rest { log: Some(log), .. } => format!(
            "when the cause is gone, the same command goes on from here. All that happened is in {}: `talmox runs` \
             shows it",
            log.display()
        ),
        Rest { log: None, .. } => {
            "when the cause is gone, the same command goes on from here".to_owned()
        }
    }
}

/// Every failure, and what can be done about it; what helps against several is said once.
fn causes(failures: &[(&StepId, &StepError)], printer: &Printer) -> String {
    let mut hints: Vec<Option<&str>> = vec![];
    for (_, error) in failures {
        if !hints.contains(&error.hint.as_deref()) {
            hints.push(error.hint.as_deref());
        }
    }
    let mut out = String::new();
    for hint in hints {
        for (step, error) in failures.iter().filter(|(_, error)| error.hint.as_deref() == hint) {
            let mut text = format!("error[{}]: {step}: {error}", error.code);
            for cause in error.causes() {
                text.push_str(&format!(": {cause}"));
            }
            out.push_str(&indented("  ", &text, printer));
        }
        if let Some(hint) = hint {
            let label = printer.paint("hint:", "1;36");
            let text = indented("          ", hint, printer);
            out.push_str(&format!("    {label} {}", text.trim_start()));
        }
    }
    out
}

/// A text in lines that fit the terminal, if there is one.
fn indented(indent: &str, text: &str, printer: &Printer) -> String {
    let room = printer.size().map_or(usize::MAX, |size| size.columns);
    let lines =
        text.lines().flat_map(|line| words::wrapped(line, room.saturating_sub(indent.len())));
    lines.map(|line| format!("{indent}{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use talmox_engine::step::StepCode;

    use super::*;
    use crate::args::{Color, Format};

    fn outcome(end: RunEnd, results: Vec<(&str, StepResult)>) -> Outcome {
        let steps = results.into_iter().map(|(step, result)| (StepId::new(step), result));
        Outcome { end, steps: steps.collect() }
    }

    fn shown(outcome: &Outcome, rest: Rest<'_>) -> (String, String) {
        let printer = Printer::new(Format::Text, Color::Never);
        let error = not_done(outcome, rest, &printer);
        (error.chain(), error.hint.unwrap_or_default())
    }

    const REST: Rest<'static> = Rest { log: None, is_rehearsal: false };

    #[test]
    fn every_cause_is_named_and_what_waited_is_counted() {
        let down = |what: &str| {
            StepError::failed(StepCode::ApiUnreachable, format!("{what}: the host pve1 is down"))
                .caused_by(std::io::Error::other("no route to host"))
                .hint("bring the host up")
        };
        let full = StepError::failed(StepCode::TaskFailed, "create VM 302 on pve2");
        let by = || StepResult::Blocked { by: StepId::new("vm/a/create") };
        let outcome = outcome(
            RunEnd::Failed,
            vec![
                ("vm/a/create", StepResult::Failed(down("create VM 300 on pve1"))),
                ("vm/a/start", by()),
                ("vm/c/create", StepResult::Failed(full)),
                ("vm/b/create", StepResult::Failed(down("create VM 301 on pve1"))),
                ("vm/b/start", by()),
                ("image", StepResult::Done),
            ],
        );
        let (text, hint) = shown(&outcome, REST);
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                "3 of 6 steps failed, and 2 more need what failed",
                "  error[api-unreachable]: vm/a/create: create VM 300 on pve1: the host pve1 is down: no route to host",
                "  error[api-unreachable]: vm/b/create: create VM 301 on pve1: the host pve1 is down: no route to host",
                "    hint: bring the host up",
                "  error[task-failed]: vm/c/create: create VM 302 on pve2",
            ]
        );
        assert_eq!(hint, "when the cause is gone, the same command goes on from here");
    }

    #[test]
    fn who_stopped_it_is_told_how_to_go_on() {
        let results = vec![("a", StepResult::Done), ("b", StepResult::Cancelled)];
        let outcome = outcome(RunEnd::Cancelled, results);
        let (text, hint) = shown(&outcome, REST);
        assert_eq!(text, "stopped: 1 of 2 steps are done");
        assert!(hint.starts_with("the same command goes on from here"), "{hint}");
        let (_, hint) = shown(&outcome, Rest { is_rehearsal: true, ..REST });
        assert!(hint.contains("begins anew"), "{hint}");
    }
}
