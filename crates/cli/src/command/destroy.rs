//! `talmox destroy`

mod leftover;

use clap::Args;
use serde_json::json;
use talmox_clock::Clock;
use talmox_engine::event::{Event, RunEnd, Stamped};
use talmox_engine::observe::{observe_images, observe_removed};
use talmox_plan::plan::{Action, Plan, Step, show};
use talmox_plan::planning::{self, DestroyOptions};

use crate::args::{Format, Global};
use crate::command::locked_plan::ConfirmedPlan;
use crate::command::{Outcome, plan_blocked};
use crate::error::{CommandError, Exit};
use crate::printer::Printer;
use crate::rehearsal::RehearsalArgs;
use crate::session::{NoSecrets, Session};
use crate::{choose, confirm, interrupt, report as run_report, runtime};
use leftover::Leftovers;

const AFTER_HELP: &str = "\
Examples:
  talmox destroy dev                   ask to confirm with the cluster name
  talmox destroy dev --yes --images    in scripts: without asking, images too";

/// Stop and delete the VMs of a cluster, and nothing else
///
/// Deletes only VMs that have the marker of talmox and the matching UUID; both are checked again right before each VM
/// is deleted. The secrets are kept: a later `up` creates the VMs with the same vmids, MACs and addresses. A vmid that
/// another VM uses by then is replaced by a free one.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DestroyArgs {
    /// Clusters, processed one after the other [default: the only cluster of the inventory]
    #[arg(value_name = "CLUSTER")]
    clusters: Vec<String>,

    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,

    /// Also delete the images of the cluster, except images that may be in use; those are listed with the reason
    #[arg(long)]
    images: bool,

    /// Also delete the secrets, and the files that are useless without them: kubeconfig, talosconfig, rendered configs
    ///
    /// Without the secrets, backups of this cluster cannot be accessed. Other secrets in the same file are kept, and so
    /// are merged contexts in other files, files in other folders, and files that were changed.
    #[arg(long, conflicts_with = "lab")]
    secrets: bool,

    #[command(flatten)]
    rehearsal: RehearsalArgs,
}

pub(crate) fn run(args: &DestroyArgs, global: &Global, printer: &Printer) -> Outcome {
    for cluster in choose::each_named(&args.clusters) {
        if interrupt::is_requested() {
            return Err(interrupt::stopped());
        }
        run_one(args, cluster.as_deref(), global, printer)?;
    }
    Ok(Exit::Fine)
}

fn run_one(
    args: &DestroyArgs,
    cluster: Option<&str>,
    global: &Global,
    printer: &Printer,
) -> Result<(), CommandError> {
    runtime::run(async {
        let session =
            Session::open_with(global, cluster, &args.rehearsal, printer, NoSecrets::RefuseRemoval)
                .await?;
        let ended = destroy(args, &session, printer).await;
        session.close().await?;
        ended
    })
}

async fn destroy(
    args: &DestroyArgs,
    session: &Session,
    printer: &Printer,
) -> Result<(), CommandError> {
    let _lock = session.lock("destroy")?;
    let mut plan = plan_of(args, session).await?;
    let leftovers = if args.secrets { Some(Leftovers::find(session)?) } else { None };
    plan.changes.extend(leftovers.iter().flat_map(Leftovers::changes));
    let is_rejected = plan.errors().next().is_some();
    if printer.format == Format::Text || is_rejected {
        // Findings about kept objects are shown even if nothing is deleted.
        let text = if plan.is_empty() { show::findings(&plan) } else { show::text(&plan) };
        printer.say_raw(&printer.plan(&text, printer.color));
    }
    if is_rejected {
        return Err(plan_blocked("nothing was deleted", &plan));
    }
    let is_image = |step: &Step| matches!(step.action, Action::DeleteImage(_));
    if args.images && !plan.steps.iter().any(is_image) {
        printer.say("No images are deleted.");
    }
    if plan.steps.is_empty() {
        printer.say(if plan.findings.is_empty() {
            "Proxmox has no VMs of this cluster."
        } else {
            "Proxmox has no VMs that provably belong to this cluster; see the findings above."
        });
    }
    if plan.is_empty() {
        return report(session, &plan, printer);
    }
    if !args.yes && !session.is_own_lab() {
        confirm::require_word(
            &question(&plan, &session.desired.cluster),
            &session.desired.cluster,
        )?;
    }
    if !plan.steps.is_empty() {
        let confirmed = ConfirmedPlan {
            plan: &plan,
            command: "destroy",
            changed: "nothing was deleted: the cluster changed since the plan was shown",
        };
        confirmed.execute(session, async || plan_of(args, session).await, printer).await?;
    }
    match leftovers {
        // An interrupt during the last step must still stop the command here.
        Some(_) if interrupt::is_requested() => return Err(interrupt::stopped()),
        Some(leftovers) => {
            if plan.steps.is_empty() {
                log_end(session, printer);
            }
            leftovers.delete(session, printer)?;
        }
        None if printer.format == Format::Text && !session.is_own_lab() => {
            printer.say("The secrets are kept: `talmox up` creates the same cluster again.");
        }
        None => {}
    }
    report(session, &plan, printer)
}

async fn plan_of(args: &DestroyArgs, session: &Session) -> Result<Plan, CommandError> {
    let mut observed = session.observe_for_removal().await?;
    let has_uploads = session.desired.nodes.iter().any(|node| node.vm.cidata.is_some());
    if args.images || has_uploads {
        observed.images = observe_images(&session.desired, &session.pve, &observed.pve).await;
    }
    observe_removed(&session.desired, &session.pve, &mut observed.pve).await;
    let options = DestroyOptions { images: args.images, secrets: args.secrets };
    Ok(planning::destroy(&session.desired, &observed, options))
}

/// Writes a run log for a `destroy` without VMs. Otherwise the run log of an earlier `up` would be evidence that the
/// cluster exists, and `up` could not generate new secrets.
fn log_end(session: &Session, printer: &Printer) {
    let folder = session.chosen.run_folder();
    let Some(mut log) = run_report::log(
        &folder,
        "destroy",
        &session.desired.cluster,
        session.lab.is_some(),
        printer,
    ) else {
        return;
    };
    let what = Event::RunEnded { end: RunEnd::Done, seconds: 0.0 };
    let time = Clock::real().since_epoch().as_secs_f64();
    if let Err(error) = log.write(&Stamped { time, what }) {
        printer.warn(&format!("the log of this run is incomplete: {error}"));
    }
}

/// Prints the JSON result.
fn report(session: &Session, plan: &Plan, printer: &Printer) -> Result<(), CommandError> {
    match printer.format {
        Format::Text => Ok(()),
        Format::Json => {
            let result = json!({
                "cluster": session.desired.cluster,
                "changed": !plan.is_empty(),
                "findings": plan.findings,
            });
            printer.result(&format!("{result}\n"))
        }
    }
}

fn question(plan: &Plan, name: &str) -> String {
    let lost = if plan.steps.is_empty() {
        "These files will be deleted"
    } else {
        "All data of these VMs will be deleted"
    };
    format!("{lost}. To confirm, enter the name of the cluster, `{name}`:")
}
