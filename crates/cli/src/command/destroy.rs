//! `talmox destroy`

use std::sync::Arc;

use clap::Args;
use talmox_engine::event::RunEnd;
use talmox_engine::observe::observe_images;
use talmox_engine::plan::{self, Action, DestroyOptions, Step, show};

use crate::args::{Format, Global};
use crate::command::Outcome;
use crate::command::carry_out::{Carried, carry_out};
use crate::error::{CommandError, Exit};
use crate::printer::Printer;
use crate::rehearsal::RehearsalArgs;
use crate::session::Session;
use crate::{ask, runtime};

/// Stop and delete the VMs of a cluster, and nothing else
///
/// Only VMs that carry talmox's marker and the UUID that goes with it are touched, each looked at once more right before
/// it is deleted. The secrets stay: a second `up` gives the same vmids, MACs and addresses back.
#[derive(Debug, Args)]
pub(crate) struct DestroyArgs {
    /// The cluster [default: the only one of the inventory]
    #[arg(value_name = "CLUSTER")]
    cluster: Option<String>,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,

    /// Delete its images too, but for those that somebody may need: what is kept is said, with the reason
    #[arg(long)]
    images: bool,

    /// Delete its secrets too: nobody ever gets into backups of this cluster again
    #[arg(long)]
    secrets: bool,

    #[command(flatten)]
    rehearsal: RehearsalArgs,
}

pub(crate) fn run(args: &DestroyArgs, global: &Global, printer: &Printer) -> Outcome {
    runtime::run(async {
        let session =
            Session::open(global, args.cluster.as_deref(), &args.rehearsal, printer).await?;
        let ended = destroy(args, &session, printer).await;
        session.close().await?;
        ended
    })
}

async fn destroy(args: &DestroyArgs, session: &Session, printer: &Printer) -> Outcome {
    let folder = session.folder();
    let _lock = session.lock(&folder, "destroy")?;
    let mut world = session.observe().await?;
    let has_uploads = session.desired.nodes.iter().any(|node| node.vm.cidata.is_some());
    if args.images || has_uploads {
        world.images = observe_images(&session.desired, &session.pve, &world.pve).await;
    }
    let plan = plan::destroy(&session.desired, &world, DestroyOptions { images: args.images });
    if printer.format == Format::Text {
        printer.say_raw(&show::text(&plan));
    }
    let is_image = |step: &Step| matches!(step.action, Action::DeleteImage(_));
    if args.images && !plan.steps.iter().any(is_image) {
        printer.say("No image is deleted.");
    }
    if plan.errors().next().is_some() {
        return Err(CommandError::failed("nothing was deleted")
            .hint("what stands in the way is marked `error` above"));
    }
    let name = &session.desired.cluster;
    if plan.steps.is_empty() {
        printer.say("Nothing of this cluster is there.");
    } else {
        if !args.yes && !session.is_alone() {
            ask::word(&format!("All data of these VMs is lost. To go on, write `{name}`:"), name)?;
        }
        let write = Arc::new(|_| Ok(()));
        let Carried { outcome, .. } =
            carry_out(session, &plan, "destroy", &folder, write, printer).await;
        if outcome.end != RunEnd::Done {
            return Err(CommandError::failed("not everything was deleted")
                .hint("when the cause is gone, the same command goes on from here"));
        }
    }
    if args.secrets {
        let path = session.chosen.secrets_path();
        if path.exists() {
            std::fs::remove_file(&path).map_err(|error| {
                CommandError::failed(format!("cannot delete {}", path.display())).because(error)
            })?;
            printer.say(&format!("deleted {}", path.display()));
        }
    }
    Ok(Exit::Fine)
}
