//! `talmox destroy`

mod leftover;

use std::sync::Arc;

use clap::Args;
use serde_json::json;
use talmox_clock::Clock;
use talmox_engine::event::{Event, RunEnd, Stamped};
use talmox_engine::observe::{observe_images, observe_removed};
use talmox_plan::plan::{self, Action, Plan, Step, show};
use talmox_plan::planning::{self, DestroyOptions};

use crate::args::{Format, Global};
use crate::command::Outcome;
use crate::command::carry_out::carry_out;
use crate::command_code::CommandCode;
use crate::error::{CommandError, Exit};
use crate::printer::Printer;
use crate::rehearsal::RehearsalArgs;
use crate::session::{NoSecrets, RunLocks, Session};
use crate::{ask, choose, interrupt, report as run_report, runtime};
use leftover::Leftovers;

const AFTER_HELP: &str = "\
Examples:
  talmox destroy dev                   asks for the name of the cluster
  talmox destroy dev --yes --images    in scripts: without asking, images too";

/// Stop and delete the VMs of a cluster, and nothing else
///
/// Only VMs that carry talmox's marker and the UUID that goes with it are touched, each looked at once more right before
/// it is deleted. The secrets stay: a second `up` gives the same MACs and addresses back, and the same vmids where the inventory
/// sets `vmid:`; other nodes get the first free vmids.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DestroyArgs {
    /// The clusters, one after the other [default: the only one of the inventory]
    #[arg(value_name = "CLUSTER")]
    clusters: Vec<String>,

    /// Do it without asking
    #[arg(long, short)]
    yes: bool,

    /// Delete its images too, but for those that somebody may need: what is kept is said, with the reason
    #[arg(long)]
    images: bool,

    /// Delete its secrets too, and what is worth nothing without them: kubeconfig, talosconfig, rendered configs
    ///
    /// Nobody ever gets into backups of this cluster again. Other secrets in the same file stay, and so does what was
    /// merged into other files, written elsewhere, or changed since.
    #[arg(long, conflicts_with = "lab")]
    secrets: bool,

    #[command(flatten)]
    rehearsal: RehearsalArgs,
}

pub(crate) fn run(args: &DestroyArgs, global: &Global, printer: &Printer) -> Outcome {
    for cluster in choose::each_named(&args.clusters) {
        if interrupt::is_wanted() {
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
            Session::open_with(global, cluster, &args.rehearsal, printer, NoSecrets::Refuse)
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
    let is_refused = plan.errors().next().is_some();
    if printer.format == Format::Text || is_refused {
        // What is kept is said also where nothing goes.
        let text = if plan.is_empty() { show::findings(&plan) } else { show::text(&plan) };
        printer.say_raw(&printer.plan(&text, printer.color));
    }
    if is_refused {
        return Err(CommandError::failed(CommandCode::PlanBlocked, "nothing was deleted")
            .hint("what stands in the way is marked `error` above")
            .detail("plan", show::json(&plan)));
    }
    let is_image = |step: &Step| matches!(step.action, Action::DeleteImage(_));
    if args.images && !plan.steps.iter().any(is_image) {
        printer.say("No image is deleted.");
    }
    if plan.steps.is_empty() {
        printer.say(if plan.findings.is_empty() {
            "Nothing of this cluster is on Proxmox."
        } else {
            "Nothing that is provably of this cluster is on Proxmox; what may be left is said above."
        });
    }
    if plan.is_empty() {
        return report(session, &plan, printer);
    }
    if !args.yes && !session.is_alone() {
        ask::word(&question(&plan, &session.desired.cluster), &session.desired.cluster)?;
    }
    if !plan.steps.is_empty() {
        let locks = session.lock_cluster("destroy", printer).await?;
        let carried_out = locked(args, session, &plan, &locks, printer).await;
        locks.release(printer).await;
        carried_out?;
    }
    match leftovers {
        // Its VMs may have been all that had begun.
        Some(_) if interrupt::is_wanted() => return Err(interrupt::stopped()),
        Some(leftovers) => {
            if plan.steps.is_empty() {
                log_end(session, printer);
            }
            leftovers.delete(session, printer)?;
        }
        None if printer.format == Format::Text && !session.is_alone() => {
            printer.say("Its secrets stay: `talmox up` makes the same cluster again.");
        }
        None => {}
    }
    report(session, &plan, printer)
}

async fn plan_of(args: &DestroyArgs, session: &Session) -> Result<Plan, CommandError> {
    let mut world = session.observe_for_removal().await?;
    let has_uploads = session.desired.nodes.iter().any(|node| node.vm.cidata.is_some());
    if args.images || has_uploads {
        world.images = observe_images(&session.desired, &session.pve, &world.pve).await;
    }
    observe_removed(&session.desired, &session.pve, &mut world.pve).await;
    let options = DestroyOptions { images: args.images, secrets: args.secrets };
    Ok(planning::destroy(&session.desired, &world, options))
}

/// Carries out what was agreed to, while no other run can change the cluster. Until the lock was taken another run may
/// have: nothing is deleted then that was not agreed to.
async fn locked(
    args: &DestroyArgs,
    session: &Session,
    plan: &Plan,
    locks: &RunLocks,
    printer: &Printer,
) -> Result<(), CommandError> {
    if locks.are_held() {
        // An interrupt must not leave the lock behind.
        let _heed = interrupt::heed();
        let current = plan_of(args, session).await?;
        if interrupt::is_wanted() {
            return Err(interrupt::stopped());
        }
        let is_refused = current.errors().next().is_some();
        if is_refused || !plan::has_same_steps(plan, &current) {
            return Err(CommandError::failed(
                CommandCode::PlanChanged,
                "nothing was deleted: the cluster changed since the plan was shown",
            )
            .hint("run the same command again to see the new plan"));
        }
    }
    let write = Arc::new(|_| Ok(()));
    carry_out(session, plan, "destroy", write, locks.fences(), printer).await?;
    Ok(())
}

/// Writes down that the cluster ended although no VM was left to destroy: the log of an earlier `up` would otherwise show that it
/// exists, and keep new secrets from being made.
fn log_end(session: &Session, printer: &Printer) {
    let folder = session.chosen.run_folder();
    let Some(mut log) = run_report::log(
        &folder,
        "destroy",
        &session.desired.cluster,
        session.stage.is_some(),
        printer,
    ) else {
        return;
    };
    let what = Event::RunEnded { end: RunEnd::Done, seconds: 0.0 };
    let time = Clock::real().since_epoch().as_secs_f64();
    if let Err(error) = log.write(&Stamped { time, what }) {
        printer.warn(&format!("the log of this run is not complete: {error}"));
    }
}

/// The last line for programs.
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
        "These files are lost"
    } else {
        "All data of these VMs is lost"
    };
    format!("{lost}. To go on, write the cluster's name, `{name}`:")
}
