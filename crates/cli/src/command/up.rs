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
use crate::command::execute_plan::execute_plan;
use crate::command::{Outcome, client, cluster_arguments, draft};
use crate::command_code::CommandCode;
use crate::error::{CommandError, Exit};
use crate::interrupt::{self, StopSignals};
use crate::printer::Printer;
use crate::rehearsal::RehearsalArgs;
use crate::report::Tally;
use crate::secrets::read_input;
use crate::session::{RunLocks, Session, client_files};
use crate::{confirm, gitignore, runtime, words};
use summary::RunSuccess;

const AFTER_HELP: &str = "\
Examples:
  talmox up --lab        run in a lab, by default with a built-in inventory
  talmox up              show the plan, ask for confirmation, and execute it
  talmox up dev --yes    one of several clusters, without asking
  talmox up --merge      also add to ~/.kube/config and ~/.talos/config";

/// Create or update the cluster described by the inventory
///
/// Creates images and VMs, installs Talos and starts Kubernetes. It can be interrupted and run again: it resumes from
/// the observed state, and changes only VMs that it provably owns. A second run has nothing to do. With --lab it runs
/// in a simulated environment inside this process; without an inventory it then uses a built-in cluster of five nodes.
///
/// The cluster is locked in Proxmox during changes, so that no run from another machine or folder can change it at the
/// same time.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct UpArgs {
    /// Clusters, processed one after the other [default: the only cluster of the inventory]
    #[arg(value_name = "CLUSTER")]
    clusters: Vec<String>,

    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,

    /// Execute this saved plan; fail if the observed state or the inventory changed since it was saved
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,

    /// Folder for kubeconfig and talosconfig [default: beside the inventory; ./talmox-lab with --lab --keep; not
    /// written with --lab alone]
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Add the cluster to ~/.kube/config and ~/.talos/config as well
    #[arg(long)]
    merge: bool,

    /// Keep the lab running until Ctrl-C, for kubectl and other tools (with --lab)
    #[arg(long, requires = "lab")]
    keep: bool,

    #[command(flatten)]
    rehearsal: RehearsalArgs,
}

/// Folder for the client files of a lab with `--keep`.
const KEPT: &str = "talmox-lab";

pub(crate) fn run(args: &UpArgs, global: &Global, printer: &Printer) -> Outcome {
    if args.clusters.len() > 1 && (args.keep || args.plan.is_some() || args.output.is_some()) {
        let message = "--keep, --plan and --output require a single cluster";
        return Err(CommandError::usage(message).hint("pass the name of one cluster"));
    }
    for cluster in choose::each_named(&args.clusters) {
        if interrupt::is_requested() {
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
        let again = cluster_arguments(global, cluster, &args.rehearsal);
        let ended = up(args, again, &session, printer).await;
        if args.keep && ended.is_ok() {
            // Before the message is printed: the user may press Ctrl-C right after it.
            let _guard = interrupt::guard();
            let mut signals = StopSignals::new()?;
            printer.say(&kept(client_paths(args, &session).as_ref()));
            signals.requested().await;
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
            "--merge cannot be used with a lab that ends with this command",
        )
        .hint("pass --keep to run the lab until Ctrl-C"));
    }
    let paths = files.clone().unwrap_or_else(|| session.client_paths());
    if args.output.is_none() && !session.is_quickstart() {
        session.chosen.refuse_outside(&paths.kubeconfig)?;
        session.chosen.refuse_outside(&paths.talosconfig)?;
    }
    if files.is_some() && session.lab.is_some() {
        client::refuse_real(&paths)?;
    }
    let _lock = session.lock("up")?;
    let observed = session.observe().await?;
    let mut plan = plan_of(args, session, &paths, &observed);
    refuse(&plan, printer)?;
    if let Some(path) = &args.plan {
        let agreed = planning::plan(&session.desired, &observed, session.options(&observed));
        check_saved(path, &agreed, &observed)?;
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
        return summary::nothing_to_do(session, &observed, printer).await;
    }
    draft::announce_secrets(&mut plan, session);
    if printer.format == Format::Text {
        printer.say_raw(&printer.plan(&show::text(&plan), printer.color));
    }
    let is_change = !plan.steps.iter().all(is_write);
    if is_change && !args.yes && !args.rehearsal.lab && args.plan.is_none() {
        confirm::require_yes("Execute this plan?")?;
    }
    if !session.is_own_lab() {
        // Only a warning: if the folder is not writable, the client files fail with an error.
        match gitignore::extend(&session.folder()) {
            Ok(Some(path)) => printer.say(&format!("wrote {}", path.display())),
            Ok(None) => {}
            Err(error) => printer.warn(&error.chain()),
        }
    }
    let messages = Arc::new(Mutex::new(vec![]));
    let is_lab = session.lab.is_some();
    let write = writer(files.clone(), is_lab, args.merge, Arc::clone(&messages));
    let locks =
        if is_change { session.lock_cluster("up", printer).await? } else { RunLocks::default() };
    let executed = locked(args, session, (plan, observed), &paths, write, &locks, printer).await;
    locks.release(printer).await;
    let (tally, observed) = executed?;
    let Some(tally) = tally else {
        return summary::nothing_to_do(session, &observed, printer).await;
    };
    let messages = messages.lock().map(|messages| messages.clone()).unwrap_or_default();
    let end = RunSuccess { is_change, tally, messages, files, again };
    summary::done(session, &observed, &end, printer).await
}

fn plan_of(args: &UpArgs, session: &Session, paths: &ClientPaths, observed: &Observed) -> Plan {
    let mut options = session.options_with(paths, observed);
    // With --merge or --output the client files are written even if nothing else changes.
    options.has_client_files &= !args.merge && args.output.is_none();
    planning::plan(&session.desired, observed, options)
}

/// Executes the confirmed plan under the cluster lock. Another run may have changed the cluster before the lock was taken, so the plan is
/// made again and must have the same steps. Returns no tally if nothing is left to do.
async fn locked(
    args: &UpArgs,
    session: &Session,
    (mut plan, mut observed): (Plan, Observed),
    paths: &ClientPaths,
    write: WriteFiles,
    locks: &RunLocks,
    printer: &Printer,
) -> Result<(Option<Tally>, Observed), CommandError> {
    if locks.are_held() {
        // An interrupt must not skip the release of the lock.
        let _guard = interrupt::guard();
        session.refuse_lost_secrets().await?;
        observed = session.observe().await?;
        let current = plan_of(args, session, paths, &observed);
        if interrupt::is_requested() {
            return Err(interrupt::stopped());
        }
        if !plan::has_same_steps(&plan, &current) {
            refuse(&current, printer)?;
            if current.steps.is_empty() {
                return Ok((None, observed));
            }
            if args.plan.is_some() || !(args.yes || args.rehearsal.lab) {
                return Err(CommandError::failed(
                    CommandCode::PlanChanged,
                    "nothing was changed: the cluster changed since the plan was shown",
                )
                .hint("run the same command again to see the new plan"));
            }
            printer.say("The cluster changed after the plan was shown. New plan:");
            if printer.format == Format::Text {
                printer.say_raw(&printer.plan(&show::text(&current), printer.color));
            }
            plan = current;
        }
    }
    session.keep_secrets(printer)?;
    let tally = execute_plan(session, &plan, "up", write, locks.fences(), printer).await?;
    Ok((Some(tally), observed))
}

/// Message for a lab with `--keep`: how to use it from another terminal.
fn kept(files: Option<&ClientPaths>) -> String {
    let mut text = "\nThe lab runs until Ctrl-C.".to_owned();
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

/// Prints the plan and returns an error if it has errors or unsupported changes.
fn refuse(plan: &Plan, printer: &Printer) -> Result<(), CommandError> {
    let (errors, open) = (plan.errors().count(), plan.open_changes().count());
    if errors == 0 && open == 0 {
        return Ok(());
    }
    printer.say_raw(&printer.plan(&show::text(plan), printer.color));
    let error = if errors > 0 {
        CommandError::failed(CommandCode::PlanBlocked, "nothing was changed: the plan has errors")
            .hint("fix the errors shown above, then run the same command again")
    } else {
        let message = "nothing was changed: `up` does not support all of these changes";
        CommandError::failed(CommandCode::PlanUnsupported, message).hint(
            "remove the other changes from the inventory, or make them by hand: `up` creates clusters, adds nodes and applies add-ons",
        )
    };
    Err(error.detail("plan", show::json(plan)))
}

fn check_saved(path: &Path, plan: &Plan, observed: &Observed) -> Result<(), CommandError> {
    let text = read_input(path)?;
    let saved = SavedPlan::parse(text.expose()).and_then(|saved| saved.check(plan, observed));
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
            .hint("save a new plan with `talmox plan --out FILE`")
    })
}

/// Paths of kubeconfig and talosconfig. `None` for a lab that ends with this process. For a lab with `--keep` they are not beside the
/// inventory, where the files of the real cluster are.
fn client_paths(args: &UpArgs, session: &Session) -> Option<ClientPaths> {
    match (&args.output, session.is_own_lab(), args.keep) {
        (Some(folder), _, _) => Some(ClientPaths::within(folder)),
        (None, true, true) => Some(ClientPaths::within(Path::new(KEPT))),
        (None, true, false) => None,
        (None, false, _) => Some(session.client_paths()),
    }
}

/// Function that writes the client files and stores the messages in `messages`.
fn writer(
    paths: Option<ClientPaths>,
    is_lab: bool,
    merge: bool,
    messages: Arc<Mutex<Vec<String>>>,
) -> WriteFiles {
    Arc::new(move |files: ClientFiles| {
        let Some(paths) = &paths else { return Ok(()) };
        let lines = client::put(paths, &files, is_lab, merge).map_err(|error| error.chain())?;
        if let Ok(mut messages) = messages.lock() {
            *messages = lines;
        }
        Ok(())
    })
}
