//! `talmox runs`

use std::io;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use talmox_engine::event::RunEnd;
use talmox_engine::lock::Lock;
use talmox_engine::run_log::{self, RunSummary};
use talmox_talos_config::time::UnixTime;

use crate::args::{Format, Global};
use crate::choose;
use crate::command::Outcome;
use crate::error::{CommandError, Exit};
use crate::printer::Printer;
use crate::{regular_file, report, words};

/// The log of a run with thousands of steps has some megabytes.
const LARGEST_LOG: u64 = 256 << 20;

const AFTER_HELP: &str = "\
Examples:
  talmox runs
  talmox runs RUN                      one of them, as it was shown
  talmox runs RUN --format json        all its events, a JSON line each";

/// Show past runs of `up` and `destroy`
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct RunsArgs {
    /// The run to show in full [default: a list of all]
    #[arg(value_name = "RUN")]
    run: Option<String>,

    /// The cluster [default: the only one of the inventory]
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<String>,
}

pub(crate) fn run(args: &RunsArgs, global: &Global, printer: &Printer) -> Outcome {
    let chosen = choose::one(global, args.cluster.as_deref(), printer)?;
    let own = chosen.run_folder();
    let folder = own.join("runs");
    let failed =
        |error| CommandError::failed(format!("cannot read {}", folder.display())).because(error);
    if let Some(id) = &args.run {
        return show(&folder.join(format!("{id}.jsonl")), id, printer);
    }
    let runs = run_log::list(&folder).map_err(failed)?;
    let goes_on = Lock::is_held(&own.join("lock"));
    match printer.format {
        Format::Json => printer.result(&format!("{:#}\n", json!(runs)))?,
        Format::Text if runs.is_empty() => printer.say("There were no runs yet."),
        Format::Text => printer.result(&table(&runs, goes_on))?,
    }
    Ok(Exit::Fine)
}

/// One run: as it was shown, or every event of it.
fn show(path: &Path, id: &str, printer: &Printer) -> Outcome {
    let missing = |error| {
        CommandError::failed(format!("there is no run {id}"))
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
            Some(RunEnd::Done) => "done",
            Some(RunEnd::Failed) => "failed",
            Some(RunEnd::Cancelled) => "stopped",
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

/// In UTC, to the second.
fn started(run: &RunSummary) -> String {
    let since = Duration::try_from_secs_f64(run.header.started).unwrap_or_default();
    UnixTime::from_seconds(i64::try_from(since.as_secs()).unwrap_or(i64::MAX)).to_string()
}
