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

/// The log of a run with thousands of steps has some megabytes.
const LARGEST_LOG: u64 = 256 << 20;

const AFTER_HELP: &str = "\
Examples:
  talmox runs
  talmox runs RUN                      one of them, as it was shown
  talmox runs RUN --format json        all its events, a JSON line each
  talmox runs show last                the last one in time, with its API calls

RUN is one of the list, or `last`.";

/// Show past runs of `up` and `destroy`
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true, after_help = AFTER_HELP)]
pub(crate) struct RunsArgs {
    #[command(subcommand)]
    command: Option<RunsCommand>,

    /// The run to show in full [default: a list of all]
    #[arg(value_name = "RUN")]
    run: Option<String>,

    /// The cluster [default: the only one of the inventory]
    #[arg(long, value_name = "CLUSTER", global = true)]
    cluster: Option<String>,
}

#[derive(Debug, Subcommand)]
enum RunsCommand {
    Show(ShowArgs),
}

const SHOW_AFTER_HELP: &str = "\
Examples:
  talmox runs show
  talmox runs show last --calls        every API call of the last run
  talmox runs show RUN --format json   the same for programs";

/// Show the steps of a run in time, with their API calls
#[derive(Debug, Args)]
#[command(after_help = SHOW_AFTER_HELP)]
struct ShowArgs {
    /// The run, or `last`
    #[arg(value_name = "RUN", default_value = LAST)]
    run: String,

    /// Show every API call [default: the slowest ones of each step]
    #[arg(long)]
    calls: bool,
}

/// The newest run.
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
        (None, Some(id)) => return show(&path_of(&folder, id), id, printer),
        (None, None) => {}
    }
    let runs = runs()?;
    let goes_on = Lock::is_held(&own.join("lock"));
    match printer.format {
        Format::Json => printer.result(&format!("{:#}\n", json!(runs)))?,
        Format::Text if runs.is_empty() => printer.say("There were no runs yet."),
        Format::Text => printer.result(&table(&runs, goes_on))?,
    }
    Ok(Exit::Fine)
}

fn path_of(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.jsonl"))
}

/// The run of that name, or the last one.
fn find(runs: Vec<RunSummary>, id: &str) -> Result<RunSummary, CommandError> {
    let mut runs = runs.into_iter();
    let found = if id == LAST { runs.next() } else { runs.find(|run| run.id == id) };
    found.ok_or_else(|| {
        CommandError::failed(
            CommandCode::RunUnknown,
            match id {
                LAST => "there were no runs yet".to_owned(),
                _ => format!("there is no run {id}"),
            },
        )
        .hint("`talmox runs` lists them")
    })
}

/// The steps of one run in time, with their API calls.
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

/// One run: as it was shown, or every event of it.
fn show(path: &Path, id: &str, printer: &Printer) -> Outcome {
    let missing = |error| {
        CommandError::failed(CommandCode::RunUnknown, format!("there is no run {id}"))
            .because(error)
            .hint("`talmox runs` lists them")
    };
    let text = match printer.format {
        Format::Json => {
            let bytes = regular_file::read(path, LARGEST_LOG).map_err(io::Error::other);
            String::from_utf8_lossy(&bytes.map_err(missing)?).into_owned()
        }
        // It can be piped: colours are for what is shown as it happens.
        Format::Text => {
            let plain = Printer { color: false, ..printer.clone() };
            report::replay(&run_log::read(path).map_err(missing)?.1, &plain)
        }
    };
    printer.result(&text)?;
    Ok(Exit::Fine)
}

/// `goes_on` says whether somebody is at work now: that is the newest run without an end.
fn table(runs: &[RunSummary], goes_on: bool) -> String {
    let current = runs.iter().position(|run| run.end.is_none()).filter(|_| goes_on);
    let titles = ["RUN", "STARTED", "COMMAND", "END", "TOOK", "DONE", "ALREADY", "FAILED", "LEFT"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    rows.extend(runs.iter().enumerate().map(|(nth, run)| {
        let end = match run.end {
            Some(end) => end_word(end),
            None if current == Some(nth) => "goes on",
            None => "killed",
        };
        vec![
            run.id.clone(),
            started(run),
            run.header.command.clone(),
            end.to_owned(),
            format!("{:.0}s", run.seconds),
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
        RunEnd::Cancelled => "stopped",
    }
}

/// In UTC, to the second.
fn started(run: &RunSummary) -> String {
    let since = Duration::try_from_secs_f64(run.header.started).unwrap_or_default();
    UnixTime::from_seconds(i64::try_from(since.as_secs()).unwrap_or(i64::MAX)).to_string()
}
