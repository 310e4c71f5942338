//! `talmox up`

mod summary;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use talmox_engine::access::{ClientFiles, WriteFiles};
use talmox_engine::event::RunEnd;
use talmox_engine::observe::World;
use talmox_engine::plan::{self, Plan, SavedPlan, show};

use crate::args::{Format, Global};
use crate::command::Outcome;
use crate::command::carry_out::{Carried, carry_out};
use crate::command::client;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::rehearsal::RehearsalArgs;
use crate::session::Session;
use crate::{ask, runtime};

/// Make the cluster what the inventory says: images, VMs, Talos, Kubernetes
///
/// Safe to interrupt and to run again: it goes on from what there is, and touches nothing that is not provably
/// its own. A second run finds nothing to do. With --lab it rehearses all of that inside this program, without an
/// inventory on a built-in cluster of five nodes.
///
/// A lock keeps two runs of one inventory on this machine apart; runs on different machines are yours to keep apart.
#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// The cluster [default: the only one of the inventory]
    #[arg(value_name = "CLUSTER")]
    cluster: Option<String>,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,

    /// Carry out this saved plan, and no other: refuse if the world or the inventory changed since
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,

    /// Where kubeconfig and talosconfig are written [default: beside the inventory; ./talmox-lab with --lab --keep;
    /// with --lab alone they are not]
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Add the cluster to ~/.kube/config and ~/.talos/config as well
    #[arg(long)]
    merge: bool,

    /// With --lab: keep the lab running until Ctrl-C, for kubectl and others to look at
    #[arg(long, requires = "lab")]
    keep: bool,

    #[command(flatten)]
    rehearsal: RehearsalArgs,
}

/// The folder for the files of a lab that is kept.
const KEPT: &str = "talmox-lab";

pub(crate) fn run(args: &UpArgs, global: &Global, printer: &Printer) -> Outcome {
    runtime::run(async {
        let session =
            Session::open(global, args.cluster.as_deref(), &args.rehearsal, printer).await?;
        let ended = up(args, &session, printer).await;
        if args.keep && ended.is_ok() {
            printer.say("\nThe lab stays up until Ctrl-C.");
            // Without a handler Ctrl-C still ends the program.
            tokio::signal::ctrl_c().await.ok();
        }
        session.close().await?;
        ended
    })
}

async fn up(args: &UpArgs, session: &Session, printer: &Printer) -> Outcome {
    let files = client_folder(args, session);
    let folder = files.clone().unwrap_or_else(|| session.folder());
    let _lock = session.lock(&folder, "up")?;
    let world = session.observe().await?;
    let plan = plan::plan(&session.desired, &world, session.options_in(&folder));
    refuse(&plan, printer)?;
    if let Some(path) = &args.plan {
        check_saved(path, &plan, &world)?;
    }
    if plan.steps.is_empty() {
        return summary::nothing_to_do(session, &world, printer);
    }
    if printer.format == Format::Text {
        printer.say_raw(&show::text(&plan));
    }
    if !args.yes && !args.rehearsal.lab && args.plan.is_none() {
        ask::yes("Do it?")?;
    }
    let write = writer(files.clone(), args.merge, session.stage.is_some());
    let Carried { outcome, log } = carry_out(session, &plan, "up", &folder, write, printer).await;
    match outcome.end {
        RunEnd::Done => summary::done(session, &world, files.as_deref(), printer),
        RunEnd::Cancelled => Err(CommandError::failed("stopped before the end")
            .hint("the same command goes on from here; nothing has to be undone")),
        RunEnd::Failed => {
            let failed = outcome.failures().count();
            let hint = match log {
                Some(path) => format!(
                    "see above, or `talmox runs`; the whole log is {}. When the cause is gone, the same command goes on from here",
                    path.display()
                ),
                None => "when the cause is gone, the same command goes on from here".to_owned(),
            };
            Err(CommandError::failed(format!("{failed} of {} steps failed", plan.steps.len()))
                .hint(hint))
        }
    }
}

/// What stands in the way is said before anything is begun.
fn refuse(plan: &Plan, printer: &Printer) -> Result<(), CommandError> {
    let (errors, open) = (plan.errors().count(), plan.open_changes().count());
    if errors == 0 && open == 0 {
        return Ok(());
    }
    printer.say_raw(&show::text(plan));
    if errors > 0 {
        return Err(CommandError::failed("nothing was changed: the plan cannot be carried out")
            .hint("what stands in the way is marked `error` above"));
    }
    Err(CommandError::failed("nothing was changed: `up` does not make such changes yet").hint(
        "`up` makes clusters, adds nodes and applies add-ons. Take the other changes out of the inventory, or make them by hand",
    ))
}

fn check_saved(path: &std::path::Path, plan: &Plan, world: &World) -> Result<(), CommandError> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        CommandError::failed(format!("cannot read {}", path.display())).because(error)
    })?;
    let saved = SavedPlan::parse(&text).and_then(|saved| saved.check(plan, world));
    saved.map_err(|error| {
        CommandError::failed(format!("nothing was changed: {} does not hold", path.display()))
            .because(error)
            .hint("make a new one with `talmox plan --out FILE`")
    })
}

/// Where kubeconfig and talosconfig go. A lab that ends with us leaves none, and one that is kept none beside an
/// inventory, where those of the real cluster are.
fn client_folder(args: &UpArgs, session: &Session) -> Option<PathBuf> {
    match (&args.output, session.is_alone(), args.keep) {
        (Some(folder), _, _) => Some(folder.clone()),
        (None, true, true) => Some(PathBuf::from(KEPT)),
        (None, true, false) => None,
        (None, false, _) => Some(session.folder()),
    }
}

fn writer(folder: Option<PathBuf>, merge: bool, is_lab: bool) -> WriteFiles {
    Arc::new(move |files: ClientFiles| {
        let Some(folder) = &folder else { return Ok(()) };
        client::put(folder, &files, merge, is_lab).map_err(|error| error.chain())
    })
}
