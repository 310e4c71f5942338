//! `talmox runs`

use clap::Args;
use serde_json::json;
use talmox_engine::event::RunEnd;
use talmox_engine::run_log::{self, RunSummary};

use crate::args::{Format, Global};
use crate::choose;
use crate::command::Outcome;
use crate::error::{CommandError, Exit};
use crate::printer::Printer;
use crate::session::run_folder;
use crate::words;

const AFTER_HELP: &str = "\
Examples:
  talmox runs
  talmox runs RUN                      its events, one JSON line each";

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
    let folder = run_folder(chosen.folder()).join("runs");
    let failed =
        |error| CommandError::failed(format!("cannot read {}", folder.display())).because(error);
    if let Some(id) = &args.run {
        let path = folder.join(format!("{id}.jsonl"));
        let text = std::fs::read_to_string(&path).map_err(|error| {
            CommandError::failed(format!("there is no run {id}"))
                .because(error)
                .hint("`talmox runs` lists them")
        })?;
        printer.result(&text)?;
        return Ok(Exit::Fine);
    }
    let runs = run_log::list(&folder).map_err(failed)?;
    match printer.format {
        Format::Json => printer.result(&format!("{:#}\n", json!(runs)))?,
        Format::Text if runs.is_empty() => printer.say("There were no runs yet."),
        Format::Text => printer.result(&table(&runs))?,
    }
    Ok(Exit::Fine)
}

fn table(runs: &[RunSummary]) -> String {
    let titles = ["RUN", "COMMAND", "END", "TOOK", "DONE", "ALREADY", "FAILED", "LEFT"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    rows.extend(runs.iter().map(|run| {
        let end = match run.end {
            Some(RunEnd::Done) => "done",
            Some(RunEnd::Failed) => "failed",
            Some(RunEnd::Cancelled) => "stopped",
            None => "killed, or goes on",
        };
        vec![
            run.id.clone(),
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
