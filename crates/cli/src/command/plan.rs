//! `talmox plan`

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use talmox_plan::plan::{Plan, SavedPlan, show};
use talmox_plan::planning;

use crate::args::{Format, Global};
use crate::command::{Outcome, again, draft, look_at_each};
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
/// Looks at Proxmox and at every node that answers. What stands in the way (a vmid that somebody else has, a
/// missing right, a full storage) is shown here, not halfway through `up`. Nothing is written: the secrets of a new
/// cluster, and the MACs that come from them, are made by `up`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct PlanArgs {
    /// The clusters [default: all of the inventory]
    #[arg(value_name = "CLUSTER")]
    clusters: Vec<String>,

    /// Show the steps and what they wait for: as text, for Graphviz (dot), or as a picture (svg)
    #[arg(long, value_name = "FORM", num_args = 0..=1, default_missing_value = "text")]
    graph: Option<Graph>,

    /// Save the plan, for `up --plan FILE`
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Exit with 2 if there is something to do, 0 if not
    #[arg(long)]
    detailed_exitcode: bool,

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
        return Err(CommandError::usage("--graph and --format json do not go together")
            .hint("the JSON of a plan has `steps` and what each is `after`: leave out --graph"));
    }
    let clusters = choose::each(global, &args.clusters)?;
    if clusters.len() > 1 && (args.out.is_some() || args.graph.is_some()) {
        return Err(CommandError::usage("--out and --graph are for one cluster").hint("name one"));
    }
    look_at_each(&clusters, printer, |cluster| {
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
        .hint("`talmox secrets init` makes them: MACs and machine configs come from them"));
    }
    let world = session.observe().await?;
    let mut plan = planning::plan(&session.desired, &world, session.options(&world));
    draft::announce_secrets(&mut plan, session);
    draft::forget_identities(&mut plan, session);
    if let Some(path) = &args.out {
        let saved = SavedPlan::of(&plan, &world).to_json();
        disk::write_private(path, &saved, Before::Anything)?;
    }
    print(&plan, args, printer)?;
    if plan.errors().next().is_some() {
        if printer.format == Format::Json {
            // The result says so already.
            return Ok(Exit::Failed);
        }
        return Err(CommandError::failed(
            CommandCode::PlanBlocked,
            "the plan cannot be carried out",
        )
        .hint("what stands in the way is marked `error` above"));
    }
    if printer.format == Format::Text && args.graph.is_none() {
        let again = again(global, cluster, &args.rehearsal);
        say_next(&plan, args, &again, printer);
    }
    Ok(match (args.detailed_exitcode, plan.is_empty()) {
        (true, false) => Exit::Changes,
        _ => Exit::Fine,
    })
}

/// What becomes of the plan, for people.
fn say_next(plan: &Plan, args: &PlanArgs, again: &str, printer: &Printer) {
    let lab = if args.rehearsal.lab { " --lab" } else { "" };
    if plan.open_changes().next().is_some() {
        printer.say("`talmox up` makes clusters and adds nodes: it would refuse this plan, and change nothing.");
    } else if plan.steps.is_empty() {
        // There is nothing to carry out.
    } else if let Some(path) = &args.out {
        let path = words::quoted(&path.display().to_string());
        printer.say(&format!("`talmox up --plan {path}{again}` carries it out."));
    } else {
        printer.say(&format!("`talmox up{lab}{again}` carries it out."));
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
