//! `talmox runs`

mod timeline;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;
use talmox_engine::event::RunEnd;
use talmox_engine::lock::Lock;
use talmox_engine::run_log::{self, RunSummary};
use talmox_talos_config::time::UnixTime;

use crate::args::{Format, Global};
use crate::choose;
use crate::command::Outcome;
use crate::command_code::CommandCode;
use crate::error::{CommandError, Exit};
use crate::printer::Printer;
use crate::{regular_file, report, words};
use timeline::Timeline;

/// Maximum size of a run log in bytes. A run with thousands of steps has a log of some megabytes.
const LARGEST_LOG: u64 = 256 << 20;

const AFTER_HELP: &str = "\
Examples:
  talmox runs
  talmox runs RUN                      output of a run
  talmox runs RUN --format json        events of a run, one JSON line each
  talmox runs show last                timeline of the last run, with API calls

RUN is an id in the list, or `last`.";

/// Show past runs of `up`, `destroy`, `node` and `etcd`
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true, after_help = AFTER_HELP)]
pub(crate) struct RunsArgs {
    #[command(subcommand)]
    command: Option<RunsCommand>,

    /// Run to show in full [default: a list of all runs]
    #[arg(value_name = "RUN")]
    run: Option<String>,

    /// Cluster [default: the only cluster of the inventory]
    #[arg(long, value_name = "CLUSTER", global = true)]
    cluster: Option<String>,
}

#[derive(Debug, Subcommand)]
enum RunsCommand {
    Show(RunsShowArgs),
}

const SHOW_AFTER_HELP: &str = "\
Examples:
  talmox runs show
  talmox runs show last --calls        every API call of the last run
  talmox runs show RUN --format json   the same as JSON";

/// Show the timeline of a run: its steps with their API calls
#[derive(Debug, Args)]
#[command(after_help = SHOW_AFTER_HELP)]
struct RunsShowArgs {
    /// Id of the run, or `last`
    #[arg(value_name = "RUN", default_value = LAST)]
    run: String,

    /// Show every API call [default: the slowest calls of each step]
    #[arg(long)]
    calls: bool,
}

/// Argument that selects the newest run.
const LAST: &str = "last";

pub(crate) fn run(args: &RunsArgs, global: &Global, printer: &Printer) -> Outcome {
    let chosen = choose::one(global, args.cluster.as_deref(), printer)?;
    let own = chosen.run_folder();
    let folder = own.join("runs");
    let failed = |error| {
        CommandError::failed(
            CommandCode::FileUnreadable,
            format!("cannot read {}", folder.display()),
        )
        .because(error)
    };
    let runs = || run_log::list(&folder).map_err(failed);
    match (&args.command, &args.run) {
        (Some(_), Some(run)) => {
            return Err(CommandError::usage(format!("`{run}` is not expected before `show`"))
                .hint(format!("talmox runs show {run}")));
        }
        (Some(RunsCommand::Show(show)), None) => {
            let run = find(runs()?, &show.run)?;
            return show_timeline(&path_of(&folder, &run.id), run, show.calls, printer);
        }
        (None, Some(id)) if id == LAST => {
            let run = find(runs()?, id)?;
            return show(&path_of(&folder, &run.id), &run.id, printer);
        }
        (None, Some(id)) => {
            let path = path_of(&folder, id);
            return if path.exists() { show(&path, id, printer) } else { Err(unknown_run(id)) };
        }
        (None, None) => {}
    }
    let runs = runs()?;
    let is_running = Lock::is_held(&own.join("lock"));
    match printer.format {
        Format::Json => printer.result(&format!("{:#}\n", json!(runs)))?,
        Format::Text if runs.is_empty() => printer.say("There are no runs yet."),
        Format::Text => printer.result(&table(&runs, is_running))?,
    }
    Ok(Exit::Fine)
}

fn path_of(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.jsonl"))
}

/// Finds the run with this id, or the newest run for `last`.
fn find(runs: Vec<RunSummary>, id: &str) -> Result<RunSummary, CommandError> {
    let mut runs = runs.into_iter();
    let found = if id == LAST { runs.next() } else { runs.find(|run| run.id == id) };
    found.ok_or_else(|| unknown_run(id))
}

fn unknown_run(id: &str) -> CommandError {
    let message = match id {
        LAST => "there are no runs yet".to_owned(),
        _ => format!("there is no run {id}"),
    };
    CommandError::failed(CommandCode::RunUnknown, message)
        .hint("run `talmox runs` to list the runs")
}

/// Prints the timeline of a run: its steps with their API calls.
fn show_timeline(path: &Path, run: RunSummary, calls: bool, printer: &Printer) -> Outcome {
    let failed = |error| {
        CommandError::failed(CommandCode::FileUnreadable, format!("cannot read {}", path.display()))
            .because(error)
    };
    let (_, events) = run_log::read(path).map_err(failed)?;
    let timeline = Timeline::of(run, &events, run_log::read_calls(path).map_err(failed)?);
    match printer.format {
        Format::Json => printer.result(&format!("{:#}\n", timeline.json()))?,
        Format::Text => printer.result(&timeline.text(calls))?,
    }
    Ok(Exit::Fine)
}

/// Prints the output of a past run, or with `--format json` its events.
fn show(path: &Path, id: &str, printer: &Printer) -> Outcome {
    let unreadable = |error| {
        CommandError::failed(CommandCode::FileUnreadable, format!("cannot read the run {id}"))
            .because(error)
            .hint("run `talmox runs` to list the runs")
    };
    let text = match printer.format {
        Format::Json => {
            let bytes = regular_file::read(path, LARGEST_LOG).map_err(io::Error::other);
            String::from_utf8_lossy(&bytes.map_err(unreadable)?).into_owned()
        }
        // The text may be piped into a file, so it has no colours.
        Format::Text => {
            let plain = printer.clone().without_color();
            let (header, events) = run_log::read(path).map_err(unreadable)?;
            report::replay(&events, header.is_lab, &plain)
        }
    };
    printer.result(&text)?;
    Ok(Exit::Fine)
}

/// Table of runs. If `is_running` is true, a run holds the local lock, and the newest run without an end is that run.
fn table(runs: &[RunSummary], is_running: bool) -> String {
    let current = runs.iter().position(|run| run.end.is_none()).filter(|_| is_running);
    let titles = ["RUN", "STARTED", "COMMAND", "END", "TOOK", "DONE", "ALREADY", "FAILED", "LEFT"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    rows.extend(runs.iter().enumerate().map(|(nth, run)| {
        let end = match run.end {
            Some(end) => end_word(end),
            None if current == Some(nth) => "running",
            None => "killed",
        };
        vec![
            run.id.clone(),
            started(run),
            run.header.command.clone(),
            end.to_owned(),
            format!("{:.0}s{}", run.seconds, if run.header.is_lab { " (lab)" } else { "" }),
            run.done.to_string(),
            run.already.to_string(),
            run.failed.to_string(),
            run.left.to_string(),
        ]
    }));
    words::aligned(&rows)
}

fn end_word(end: RunEnd) -> &'static str {
    match end {
        RunEnd::Done => "done",
        RunEnd::Failed => "failed",
        RunEnd::Cancelled => "cancelled",
    }
}

/// Start time of a run in UTC.
fn started(run: &RunSummary) -> String {
    let since = Duration::try_from_secs_f64(run.header.started).unwrap_or_default();
    UnixTime::from_seconds(i64::try_from(since.as_secs()).unwrap_or(i64::MAX)).to_string()
}
