//! Error for a failed or cancelled run: the failed steps with their causes and hints, and how to resume the run.

use std::path::Path;

use talmox_engine::event::RunEnd;
use talmox_engine::execute::{Outcome, StepResult};
use talmox_engine::step::StepError;
use talmox_plan::plan::StepId;

use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::words;

/// Facts for the hint about resuming a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResumeInfo<'a> {
    /// Path of the run log.
    pub(crate) log: Option<&'a Path>,
    /// Whether the run was in a lab inside this process. Such a lab ends with the process.
    pub(crate) is_rehearsal: bool,
}

/// Error for a failed or cancelled run.
pub(crate) fn not_done(outcome: &Outcome, rest: ResumeInfo<'_>, printer: &Printer) -> CommandError {
    let all = outcome.steps.len();
    if outcome.end != RunEnd::Failed {
        let is_done =
            |result: &StepResult| matches!(result, StepResult::Done | StepResult::Already);
        let done = outcome.steps.iter().filter(|(_, result)| is_done(result)).count();
        let message = format!("interrupted: {done} of {all} steps are done");
        return CommandError::failed(CommandCode::Interrupted, message).hint(
            if rest.is_rehearsal {
                "the lab ended with this command: run the same command to start again"
            } else {
                "run the same command to resume; nothing has to be undone"
            },
        );
    }
    let failures: Vec<_> = outcome.failures().collect();
    let mut message = match (failures.len(), outcome.blocked()) {
        (failed, 0) => format!("{failed} of {all} steps failed"),
        (failed, 1) => format!("{failed} of {all} steps failed, and 1 more was skipped"),
        (failed, more) => {
            format!("{failed} of {all} steps failed, and {more} more were skipped")
        }
    };
    message.push('\n');
    message.push_str(&causes(&failures, printer));
    CommandError::failed(CommandCode::StepsFailed, message.trim_end()).hint(resume_hint(rest))
}

/// Hint about resuming a failed run.
fn resume_hint(rest: ResumeInfo<'_>) -> String {
    match rest {
        ResumeInfo { is_rehearsal: true, .. } => {
            "the lab ended with this command: fix the cause, then run the same command to start again".to_owned()
        }
        ResumeInfo { log: Some(log), .. } => format!(
            "fix the cause, then run the same command to resume. `talmox runs` shows this run; its log is {}",
            log.display()
        ),
        ResumeInfo { log: None, .. } => {
            "fix the cause, then run the same command to resume".to_owned()
        }
    }
}

/// Text with the failed steps and their causes. Steps with the same hint are grouped, so that the hint is printed once.
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

/// Text with an indent before each line, wrapped to the width of the terminal.
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

    fn shown(outcome: &Outcome, rest: ResumeInfo<'_>) -> (String, String) {
        let printer = Printer::new(Format::Text, Color::Never);
        let error = not_done(outcome, rest, &printer);
        (error.chain(), error.hint.unwrap_or_default())
    }

    const REST: ResumeInfo<'static> = ResumeInfo { log: None, is_rehearsal: false };

    #[test]
    fn every_cause_is_named_and_skipped_steps_are_counted() {
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
                "3 of 6 steps failed, and 2 more were skipped",
                "  error[api-unreachable]: vm/a/create: create VM 300 on pve1: the host pve1 is down: no route to host",
                "  error[api-unreachable]: vm/b/create: create VM 301 on pve1: the host pve1 is down: no route to host",
                "    hint: bring the host up",
                "  error[task-failed]: vm/c/create: create VM 302 on pve2",
            ]
        );
        assert_eq!(hint, "fix the cause, then run the same command to resume");
    }

    #[test]
    fn a_cancelled_run_has_a_hint_how_to_resume() {
        let results = vec![("a", StepResult::Done), ("b", StepResult::Cancelled)];
        let outcome = outcome(RunEnd::Cancelled, results);
        let (text, hint) = shown(&outcome, REST);
        assert_eq!(text, "interrupted: 1 of 2 steps are done");
        assert!(hint.starts_with("run the same command to resume"), "{hint}");
        let (_, hint) = shown(&outcome, ResumeInfo { is_rehearsal: true, ..REST });
        assert!(hint.contains("start again"), "{hint}");
    }
}
