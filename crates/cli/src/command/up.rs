//! `talmox up`

mod consent;
mod saved;
mod summary;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use clap::Args;
use talmox_engine::access::{ClientFiles, WriteFiles};
use talmox_plan::observed::Observed;
use talmox_plan::plan::{self, Action, Plan, SavedPlan, Step, show};
use talmox_plan::planning::{self, Scope};

use crate::args::{Format, Global};
use crate::choose::{self, ClientPaths};
use crate::command::execute_plan::execute_plan;
use crate::command::scope_args::ScopeArgs;
use crate::command::{Outcome, client, cluster_arguments, draft, plan_blocked};
use crate::command_code::CommandCode;
use crate::error::{CommandError, Exit};
use crate::interrupt::{self, StopSignals};
use crate::printer::Printer;
use crate::rehearsal::RehearsalArgs;
use crate::report::Tally;
use crate::session::{RunLocks, Session, client_files};
use crate::{confirm, gitignore, runtime, words};
use summary::RunSuccess;

const AFTER_HELP: &str = "\
Examples:
  talmox up --lab        run in a lab, by default with a built-in inventory
  talmox up              show the plan, ask for confirmation, and execute it
  talmox up dev --yes    one of several clusters, without asking
  talmox up --merge      also add to ~/.kube/config and ~/.talos/config
  talmox up --node wk-1  change only the node wk-1";

/// Create or update the cluster described by the inventory
///
/// Creates images and VMs, installs Talos and starts Kubernetes. It can be interrupted and run again: it resumes from
/// the observed state, and changes only VMs that it provably owns. A second run has nothing to do. With --lab it runs
/// in a simulated environment inside this process; without an inventory it then uses a built-in cluster of five nodes.
///
/// Stopped and missing nodes are repaired first, then nodes are changed one after the other, then nodes are removed. A
/// change that needs consent, is impossible or has an error leaves the other nodes alone: `up` makes the other changes,
/// lists what it left, and exits with 3.
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
    scope: ScopeArgs,

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
    if args.plan.is_some() && args.scope.is_given() {
        let message =
            "--plan cannot be used with --node, --only, --max-unavailable or --allow-removal";
        return Err(CommandError::usage(message)
            .hint("pass them to `talmox plan --out FILE`: the file contains them"));
    }
    // The plan is read before a lab is started, so that a missing file is reported at once.
    let saved = args.plan.as_deref().map(saved::read).transpose()?;
    let mut exit = Exit::Fine;
    for cluster in choose::each_named(&args.clusters) {
        if interrupt::is_requested() {
            return Err(interrupt::stopped());
        }
        if run_one(args, saved.as_ref(), cluster.as_deref(), global, printer)? == Exit::Partial {
            exit = Exit::Partial;
        }
    }
    Ok(exit)
}

fn run_one(
    args: &UpArgs,
    saved: Option<&SavedPlan>,
    cluster: Option<&str>,
    global: &Global,
    printer: &Printer,
) -> Outcome {
    runtime::run(async {
        let session = Session::open_shown(global, cluster, &args.rehearsal, printer).await?;
        let again = cluster_arguments(global, cluster, &args.rehearsal);
        let ended = up(args, saved, again, &session, printer).await;
        if args.keep && ended.is_ok() {
            // The signals are handled before the message is printed, because the user may press Ctrl-C right after the
            // message.
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
    saved: Option<&SavedPlan>,
    again: String,
    session: &Session,
    printer: &Printer,
) -> Outcome {
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
    let mut run = Run {
        args,
        session,
        paths: &paths,
        scope: match saved {
            Some(saved) => saved.scope.clone(),
            None => args.scope.scope(&session.desired, &observed)?,
        },
    };
    let mut plan = run.plan(&observed);
    refuse(&plan, printer)?;
    if let (Some(path), Some(saved)) = (&args.plan, saved) {
        let options = session.options(&observed);
        let agreed = planning::plan_within(&session.desired, &observed, options, &run.scope);
        saved::check(path, saved, &agreed, &observed)?;
    }
    if run.asks() && run.agrees_to_removal(&plan, printer)? {
        plan = run.plan(&observed);
        refuse(&plan, printer)?;
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
            let text = if plan.is_empty() { show::findings(&plan) } else { show::text(&plan) };
            printer.say_raw(&printer.plan(&text, printer.color));
        }
        return summary::nothing_to_do(session, &observed, &plan, printer).await;
    }
    draft::announce_secrets(&mut plan, session);
    if printer.format == Format::Text {
        printer.say_raw(&printer.plan(&show::text(&plan), printer.color));
    }
    let is_change = !plan.steps.iter().all(is_write);
    if is_change && run.asks() {
        confirm::require_yes("Execute this plan?")?;
    }
    if !session.is_own_lab() {
        // An error is reported only as a warning. If the folder is not writable, writing the client files fails with an
        // error later.
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
    let executed = run.execute((plan, observed), write, &locks, printer).await;
    locks.release(printer).await;
    let Executed { tally, plan, observed } = executed?;
    let Some(tally) = tally else {
        return summary::nothing_to_do(session, &observed, &plan, printer).await;
    };
    let messages = messages.lock().map(|messages| messages.clone()).unwrap_or_default();
    let end = RunSuccess { is_change, tally, messages, files, again };
    summary::done(session, &observed, &plan, &end, printer).await
}

/// Context of a run of `up`.
struct Run<'a> {
    args: &'a UpArgs,
    session: &'a Session,
    paths: &'a ClientPaths,
    scope: Scope,
}

/// Result of [`Run::execute`].
struct Executed {
    /// Counts of the run. `None` if nothing was left to do.
    tally: Option<Tally>,
    /// Plan that was executed. If nothing was left to do, the plan without steps.
    plan: Plan,
    observed: Observed,
}

impl Run<'_> {
    fn plan(&self, observed: &Observed) -> Plan {
        let mut options = self.session.options_with(self.paths, observed);
        // With --merge or --output the client files are written even if nothing else changes.
        options.has_client_files &= !self.args.merge && self.args.output.is_none();
        planning::plan_within(&self.session.desired, observed, options, &self.scope)
    }

    /// Whether the user must confirm the plan.
    fn asks(&self) -> bool {
        !self.args.yes && !self.args.rehearsal.lab && self.args.plan.is_none()
    }

    /// Asks for consent to lose the disks of the nodes that the plan leaves. Shows the plan, then asks for the name of
    /// each node. Returns whether the user agreed for at least one node. Without a terminal, the nodes are left.
    fn agrees_to_removal(&mut self, plan: &Plan, printer: &Printer) -> Result<bool, CommandError> {
        let nodes = consent::nodes_without_consent(plan);
        if nodes.is_empty() || !confirm::can_ask() {
            return Ok(false);
        }
        printer.say_raw(&printer.plan(&show::text(plan), printer.color));
        let agreed = consent::ask(nodes, printer)?;
        let is_any = !agreed.is_empty();
        self.scope.allow_removal(agreed);
        Ok(is_any)
    }

    /// Executes the confirmed plan under the cluster lock. The plan is made again under the lock, because another run may
    /// have changed the cluster before. If the steps differ, the new plan is executed with `--yes` or `--lab`. Otherwise,
    /// and always with `--plan`, the new plan is rejected.
    async fn execute(
        &self,
        (mut plan, mut observed): (Plan, Observed),
        write: WriteFiles,
        locks: &RunLocks,
        printer: &Printer,
    ) -> Result<Executed, CommandError> {
        if locks.are_held() {
            // The guard makes sure that the lock is released after an interrupt.
            let _guard = interrupt::guard();
            self.session.refuse_lost_secrets().await?;
            observed = self.session.observe().await?;
            let current = self.plan(&observed);
            if interrupt::is_requested() {
                return Err(interrupt::stopped());
            }
            // A new error may leave the steps as they are.
            refuse(&current, printer)?;
            if !plan::has_same_steps(&plan, &current) {
                if current.steps.is_empty() {
                    return Ok(Executed { tally: None, plan: current, observed });
                }
                if self.args.plan.is_some() || !(self.args.yes || self.args.rehearsal.lab) {
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
        self.session.keep_secrets(printer)?;
        self.session.keep_addon_lock(printer)?;
        let fences = locks.fences();
        let tally = execute_plan(self.session, &plan, "up", write, fences, printer).await?;
        Ok(Executed { tally: Some(tally), plan, observed })
    }
}

/// Message for a lab with `--keep`, with instructions for another terminal.
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

/// Prints the plan and returns an error, if the plan has errors that block all steps.
fn refuse(plan: &Plan, printer: &Printer) -> Result<(), CommandError> {
    if plan.blocking_errors().next().is_none() {
        return Ok(());
    }
    printer.say_raw(&printer.plan(&show::text(plan), printer.color));
    Err(plan_blocked("nothing was changed", plan))
}

/// Paths of kubeconfig and talosconfig. `None` for a lab that ends with this process. The files of a lab with `--keep`
/// are not written beside the inventory, because the files of the real cluster are there.
fn client_paths(args: &UpArgs, session: &Session) -> Option<ClientPaths> {
    match (&args.output, session.is_own_lab(), args.keep) {
        (Some(folder), _, _) => Some(ClientPaths::within(folder)),
        (None, true, true) => Some(ClientPaths::within(Path::new(KEPT))),
        (None, true, false) => None,
        (None, false, _) => Some(session.client_paths()),
    }
}

/// Function that writes the client files. It stores its messages in `messages`.
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
