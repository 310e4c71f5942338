//! `talmox plan`

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use talmox_engine::plan::{self, Plan, SavedPlan, show};

use crate::args::{Format, Global};
use crate::command::Outcome;
use crate::disk::{self, Before};
use crate::error::{CommandError, Exit};
use crate::printer::Printer;
use crate::rehearsal::RehearsalArgs;
use crate::runtime;
use crate::session::Session;

/// Show what `up` would do, and change nothing
///
/// Looks at Proxmox and at every node that answers. What stands in the way (a vmid that somebody else has, a
/// missing right, a full storage) is shown here, not halfway through `up`.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// The cluster [default: the only one of the inventory]
    #[arg(value_name = "CLUSTER")]
    cluster: Option<String>,

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
    runtime::run(async {
        let session =
            Session::open(global, args.cluster.as_deref(), &args.rehearsal, printer).await?;
        let world = session.observe().await?;
        let plan = plan::plan(&session.desired, &world, session.options());
        if let Some(path) = &args.out {
            let saved = SavedPlan::of(&plan, &world).to_json(&plan);
            disk::write_private(path, &format!("{saved:#}\n"), Before::Anything)?;
        }
        print(&plan, args, printer)?;
        session.close().await?;
        if plan.errors().next().is_some() {
            return Err(CommandError::failed("the plan cannot be carried out")
                .hint("what stands in the way is marked `error` above"));
        }
        Ok(match (args.detailed_exitcode, plan.is_empty()) {
            (true, false) => Exit::Changes,
            _ => Exit::Fine,
        })
    })
}

fn print(plan: &Plan, args: &PlanArgs, printer: &Printer) -> Result<(), CommandError> {
    match (args.graph, printer.format) {
        (Some(Graph::Dot), _) => printer.result(&show::dot(plan)),
        (Some(Graph::Svg), _) => printer.result(&show::svg(plan)),
        (Some(Graph::Text), Format::Text) => printer.result(&show::graph(plan)),
        (_, Format::Json) => printer.result(&format!("{:#}\n", show::json(plan))),
        (None, Format::Text) => printer.result(&show::text(plan)),
    }
}
