//! `talmox plan`

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use talmox_plan::plan::{Plan, SavedPlan, show};
use talmox_plan::planning;

use crate::args::{Format, Global};
use crate::command::scope_args::ScopeArgs;
use crate::command::{Outcome, cluster_arguments, draft, for_each_cluster};
use crate::command_code::CommandCode;
use crate::disk::{self, Before};
use crate::error::{CommandError, Exit};
use crate::printer::Printer;
use crate::rehearsal::RehearsalArgs;
use crate::session::Session;
use crate::{choose, runtime, words};

const AFTER_HELP: &str = "\
Examples:
  talmox plan
  talmox plan --graph svg > plan.svg
  talmox plan --out plan.json && talmox up --plan plan.json";

/// Show what `up` would do, and change nothing
///
/// Reads Proxmox and all nodes that answer. Runs the preflight checks of `up`, which find for example a used vmid, a
/// missing permission or a full storage. Nothing is written: `up` generates the secrets of a new cluster, and the MACs
/// that are derived from them.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct PlanArgs {
    /// Clusters [default: all clusters of the inventory]
    #[arg(value_name = "CLUSTER")]
    clusters: Vec<String>,

    /// Show the steps and their dependencies: as text, for Graphviz (dot), or as an image (svg)
    #[arg(long, value_name = "FORM", num_args = 0..=1, default_missing_value = "text")]
    graph: Option<Graph>,

    /// Save the plan to a file, for `up --plan FILE`
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Exit with 2 if the plan has changes, with 0 if not
    #[arg(long)]
    detailed_exitcode: bool,

    #[command(flatten)]
    scope: ScopeArgs,

    #[command(flatten)]
    rehearsal: RehearsalArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Graph {
    Text,
    Dot,
    Svg,
}

pub(crate) fn run(args: &PlanArgs, global: &Global, printer: &Printer) -> Outcome {
    if args.graph.is_some() && printer.format == Format::Json {
        return Err(CommandError::usage("--graph cannot be used with --format json").hint(
            "omit --graph: the JSON of a plan has the dependencies of each step in `after`",
        ));
    }
    let clusters = choose::each(global, &args.clusters)?;
    if clusters.len() > 1 && (args.out.is_some() || args.graph.is_some()) {
        return Err(CommandError::usage("--out and --graph require a single cluster")
            .hint("pass the name of one cluster"));
    }
    for_each_cluster(&clusters, printer, |cluster| {
        runtime::run(async {
            let session = Session::open(global, cluster, &args.rehearsal, printer).await?;
            let planned = plan(args, cluster, global, &session, printer).await;
            session.close().await?;
            planned
        })
    })
}

async fn plan(
    args: &PlanArgs,
    cluster: Option<&str>,
    global: &Global,
    session: &Session,
    printer: &Printer,
) -> Outcome {
    if args.out.is_some() && session.is_draft {
        return Err(CommandError::failed(
            CommandCode::SecretsMissing,
            "a plan cannot be saved before the cluster has secrets",
        )
        .hint("run `talmox secrets init` first: MACs and machine configs are derived from the secrets"));
    }
    let observed = session.observe().await?;
    let scope = args.scope.scope(&session.desired, &observed)?;
    let options = session.options(&observed);
    let mut plan = planning::plan_within(&session.desired, &observed, options, &scope);
    draft::announce_secrets(&mut plan, session);
    draft::forget_identities(&mut plan, session);
    if let Some(path) = &args.out {
        let saved = SavedPlan::of(&plan, &observed).within(&scope).to_json();
        disk::write_private(path, &saved, Before::Anything)?;
    }
    print(&plan, args, printer)?;
    if plan.blocking_errors().next().is_some() {
        if printer.format == Format::Json {
            // The JSON result contains the errors.
            return Ok(Exit::Failed);
        }
        return Err(CommandError::failed(CommandCode::PlanBlocked, "the plan has errors")
            .hint("fix the errors shown above, then run the same command again"));
    }
    if printer.format == Format::Text && args.graph.is_none() {
        let again = cluster_arguments(global, cluster, &args.rehearsal);
        say_next(&plan, args, &again, printer);
    }
    Ok(match (args.detailed_exitcode, plan.is_empty()) {
        (true, false) => Exit::Changes,
        _ => Exit::Fine,
    })
}

/// Prints the command that executes the plan.
fn say_next(plan: &Plan, args: &PlanArgs, again: &str, printer: &Printer) {
    let lab = if args.rehearsal.lab { " --lab" } else { "" };
    let rest = if plan.is_partial() { ", and leaves the changes marked `left`" } else { "" };
    if plan.steps.is_empty() {
        if plan.is_partial() {
            printer.say("`talmox up` would change nothing: all changes are left.");
        }
    } else if let Some(path) = &args.out {
        let path = words::quoted(&path.display().to_string());
        printer.say(&format!("`talmox up --plan {path}{again}` executes this plan{rest}."));
    } else {
        let limits = args.scope.arguments();
        printer.say(&format!("`talmox up{lab}{again}{limits}` executes this plan{rest}."));
    }
}

fn print(plan: &Plan, args: &PlanArgs, printer: &Printer) -> Result<(), CommandError> {
    match (args.graph, printer.format) {
        (Some(Graph::Dot), _) => printer.result(&show::dot(plan)),
        (Some(Graph::Svg), _) => printer.result(&show::svg(plan)),
        (Some(Graph::Text), _) => printer.result(&show::graph(plan)),
        (None, Format::Json) => printer.result(&format!("{:#}\n", show::json(plan))),
        (None, Format::Text) => {
            printer.result(&printer.plan(&show::text(plan), printer.colors_results()))
        }
    }
}
