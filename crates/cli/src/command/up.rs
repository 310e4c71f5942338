//! `talmox up`

mod summary;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use clap::Args;
use talmox_engine::access::{ClientFiles, WriteFiles};
use talmox_plan::observed::Observed;
use talmox_plan::plan::{self, Action, Plan, SavedPlan, SavedPlanError, Step, show};
use talmox_plan::planning;

use crate::args::{Format, Global};
use crate::choose::{self, ClientPaths};
use crate::command::carry_out::carry_out;
use crate::command::{Outcome, again, client, draft};
use crate::command_code::CommandCode;
use crate::error::{CommandError, Exit};
use crate::interrupt::{self, Stops};
use crate::printer::Printer;
use crate::rehearsal::RehearsalArgs;
use crate::report::Tally;
use crate::secrets::read_input;
use crate::session::{RunLocks, Session, client_files};
use crate::{ask, gitignore, runtime, words};
use summary::End;

const AFTER_HELP: &str = "\
Examples:
  talmox up --lab        rehearse; without an inventory, on a built-in one
  talmox up              show the plan, ask, and do it
  talmox up dev --yes    one of several clusters, without asking
  talmox up --merge      also add it to ~/.kube/config and ~/.talos/config";

/// Make the cluster that the inventory describes, or go on doing so
///
/// Makes images, VMs, Talos and Kubernetes. Safe to interrupt and to run again: it goes on from what there is, and touches nothing that is not provably
/// its own. A second run finds nothing to do. With --lab it rehearses all of that inside this program, without an
/// inventory on a built-in cluster of five nodes.
///
/// The cluster is locked in Proxmox while something is changed: no other machine or folder can work on it at the same time.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct UpArgs {
    /// The clusters, one after the other [default: the only one of the inventory]
    #[arg(value_name = "CLUSTER")]
    clusters: Vec<String>,

    /// Do it without asking
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
    if args.clusters.len() > 1 && (args.keep || args.plan.is_some() || args.output.is_some()) {
        let message = "--keep, --plan and --output are for one cluster";
        return Err(CommandError::usage(message).hint("name one"));
    }
    for cluster in choose::each_named(&args.clusters) {
        if interrupt::is_wanted() {
            return Err(interrupt::stopped());
        }
        run_one(args, cluster.as_deref(), global, printer)?;
    }
    Ok(Exit::Fine)
}

fn run_one(
    args: &UpArgs,
    cluster: Option<&str>,
    global: &Global,
    printer: &Printer,
) -> Result<(), CommandError> {
    runtime::run(async {
        let session = Session::open_shown(global, cluster, &args.rehearsal, printer).await?;
        let again = again(global, cluster, &args.rehearsal);
        let ended = up(args, again, &session, printer).await;
        if args.keep && ended.is_ok() {
            // Before it is said: who reads it may be quick.
            let _heed = interrupt::heed();
            let mut stops = Stops::new()?;
            printer.say(&kept(client_paths(args, &session).as_ref()));
            stops.wanted().await;
        }
        session.close().await?;
        ended
    })
}

async fn up(
    args: &UpArgs,
    again: String,
    session: &Session,
    printer: &Printer,
) -> Result<(), CommandError> {
    let files = client_paths(args, session);
    if args.merge && files.is_none() {
        return Err(CommandError::usage(
            "--merge does not go with a lab that ends with this command",
        )
        .hint("--keep holds the lab up until Ctrl-C"));
    }
    let paths = files.clone().unwrap_or_else(|| session.client_paths());
    if args.output.is_none() && !session.is_quickstart() {
        session.chosen.refuse_outside(&paths.kubeconfig)?;
        session.chosen.refuse_outside(&paths.talosconfig)?;
    }
    if files.is_some() && session.stage.is_some() {
        client::refuse_real(&paths)?;
    }
    let _lock = session.lock("up")?;
    let world = session.observe().await?;
    let mut plan = plan_of(args, session, &paths, &world);
    refuse(&plan, printer)?;
    if let Some(path) = &args.plan {
        let agreed = planning::plan(&session.desired, &world, session.options(&world));
        check_saved(path, &agreed, &world)?;
    }
    let is_write = |step: &Step| matches!(step.action, Action::WriteClientFiles(_));
    if files.is_some() && plan.steps.iter().any(is_write) {
        client_files::refuse_others(&paths, &session.bundle)?;
        if args.merge {
            client::refuse_unmergeable(&session.desired.cluster, &session.bundle)?;
        }
    }
    if plan.steps.is_empty() {
        if printer.format == Format::Text {
            printer.say_raw(&printer.plan(&show::findings(&plan), printer.color));
        }
        return summary::nothing_to_do(session, &world, printer).await;
    }
    draft::announce_secrets(&mut plan, session);
    if printer.format == Format::Text {
        printer.say_raw(&printer.plan(&show::text(&plan), printer.color));
    }
    let is_change = !plan.steps.iter().all(is_write);
    if is_change && !args.yes && !args.rehearsal.lab && args.plan.is_none() {
        ask::yes("Do it?")?;
    }
    if !session.is_alone() {
        // A folder that cannot be written to is reported where it matters, by the files themselves.
        match gitignore::extend(&session.folder()) {
            Ok(Some(path)) => printer.say(&format!("wrote {}", path.display())),
            Ok(None) => {}
            Err(error) => printer.warn(&error.chain()),
        }
    }
    let told = Arc::new(Mutex::new(vec![]));
    let is_lab = session.stage.is_some();
    let write = writer(files.clone(), is_lab, args.merge, Arc::clone(&told));
    let locks =
        if is_change { session.lock_cluster("up", printer).await? } else { RunLocks::default() };
    let carried_out = locked(args, session, (plan, world), &paths, write, &locks, printer).await;
    locks.release(printer).await;
    let (tally, world) = carried_out?;
    let Some(tally) = tally else { return summary::nothing_to_do(session, &world, printer).await };
    let told = told.lock().map(|told| told.clone()).unwrap_or_default();
    let end = End { is_change, tally, told, files, again };
    summary::done(session, &world, &end, printer).await
}

fn plan_of(args: &UpArgs, session: &Session, paths: &ClientPaths, world: &Observed) -> Plan {
    let mut options = session.options_with(paths, world);
    // Who asks for the files gets them, also if nothing else is to be done.
    options.has_client_files &= !args.merge && args.output.is_none();
    planning::plan(&session.desired, world, options)
}

/// Carries out what was agreed to, while no other run can change the cluster. Until the lock was taken another run may
/// have: so the plan is made once more, and must do the same. Nothing, if there is nothing left to do.
async fn locked(
    args: &UpArgs,
    session: &Session,
    (mut plan, mut world): (Plan, Observed),
    paths: &ClientPaths,
    write: WriteFiles,
    locks: &RunLocks,
    printer: &Printer,
) -> Result<(Option<Tally>, Observed), CommandError> {
    if locks.are_held() {
        // An interrupt must not leave the lock behind.
        let _heed = interrupt::heed();
        session.refuse_lost_secrets().await?;
        world = session.observe().await?;
        let current = plan_of(args, session, paths, &world);
        if interrupt::is_wanted() {
            return Err(interrupt::stopped());
        }
        if !plan::has_same_steps(&plan, &current) {
            refuse(&current, printer)?;
            if current.steps.is_empty() {
                return Ok((None, world));
            }
            if args.plan.is_some() || !(args.yes || args.rehearsal.lab) {
                return Err(CommandError::failed(
                    CommandCode::PlanChanged,
                    "nothing was changed: the cluster changed since the plan was shown",
                )
                .hint("run the same command again to see the new plan"));
            }
            printer.say("The cluster changed since; this is what is left to do:");
            if printer.format == Format::Text {
                printer.say_raw(&printer.plan(&show::text(&current), printer.color));
            }
            plan = current;
        }
    }
    session.keep_secrets(printer)?;
    let tally = carry_out(session, &plan, "up", write, locks.fences(), printer).await?;
    Ok((Some(tally), world))
}

/// How a lab that stays is used: this terminal is busy until it ends.
fn kept(files: Option<&ClientPaths>) -> String {
    let mut text = "\nThe lab stays up until Ctrl-C.".to_owned();
    if let Some(files) = files {
        let path = |path: &Path| {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            words::quoted(&path.display().to_string())
        };
        text.push_str(&format!(
            " Use it from a second terminal:\n\n  export KUBECONFIG={}\n  export TALOSCONFIG={}\n  kubectl get nodes",
            path(&files.kubeconfig),
            path(&files.talosconfig)
        ));
    }
    text
}

/// What stands in the way is said before anything is begun.
fn refuse(plan: &Plan, printer: &Printer) -> Result<(), CommandError> {
    let (errors, open) = (plan.errors().count(), plan.open_changes().count());
    if errors == 0 && open == 0 {
        return Ok(());
    }
    printer.say_raw(&printer.plan(&show::text(plan), printer.color));
    let error = if errors > 0 {
        CommandError::failed(
            CommandCode::PlanBlocked,
            "nothing was changed: the plan cannot be carried out",
        )
        .hint("what stands in the way is marked `error` above")
    } else {
        let message = "nothing was changed: `up` does not make such changes yet";
        CommandError::failed(CommandCode::PlanUnsupported, message).hint(
            "`up` makes clusters, adds nodes and applies add-ons. Take the other changes out of the inventory, or make them by hand",
        )
    };
    Err(error.detail("plan", show::json(plan)))
}

fn check_saved(path: &Path, plan: &Plan, world: &Observed) -> Result<(), CommandError> {
    let text = read_input(path)?;
    let saved = SavedPlan::parse(text.expose()).and_then(|saved| saved.check(plan, world));
    saved.map_err(|error| {
        let code = match error {
            SavedPlanError::Unreadable | SavedPlanError::Edited => CommandCode::SavedPlanInvalid,
            SavedPlanError::OtherCluster(_)
            | SavedPlanError::ObservedChanged
            | SavedPlanError::InventoryChanged => CommandCode::SavedPlanChanged,
        };
        let message = format!("nothing was changed: {} cannot be used", path.display());
        CommandError::failed(code, message)
            .because(error)
            .hint("make a new one with `talmox plan --out FILE`")
    })
}

/// Where kubeconfig and talosconfig go. A lab that ends with us leaves none, and one that is kept none beside an
/// inventory, where those of the real cluster are.
fn client_paths(args: &UpArgs, session: &Session) -> Option<ClientPaths> {
    match (&args.output, session.is_alone(), args.keep) {
        (Some(folder), _, _) => Some(ClientPaths::within(folder)),
        (None, true, true) => Some(ClientPaths::within(Path::new(KEPT))),
        (None, true, false) => None,
        (None, false, _) => Some(session.client_paths()),
    }
}

/// Writes the files, and keeps in `told` what was written.
fn writer(
    paths: Option<ClientPaths>,
    is_lab: bool,
    merge: bool,
    told: Arc<Mutex<Vec<String>>>,
) -> WriteFiles {
    Arc::new(move |files: ClientFiles| {
        let Some(paths) = &paths else { return Ok(()) };
        let lines = client::put(paths, &files, is_lab, merge).map_err(|error| error.chain())?;
        if let Ok(mut told) = told.lock() {
            *told = lines;
        }
        Ok(())
    })
}
