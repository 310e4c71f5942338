//! `talmox node replace`

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;

use clap::Args;
use talmox_engine::access::{ClientFiles, WriteFiles};
use talmox_plan::plan::{Action, Change, Left, Object, Plan, Step, show};
use talmox_plan::planning::{self, RemovalConsent, Scope};

use super::node_choice::named;
use crate::args::Global;
use crate::command::plan_command::{PlanCommand, writes_nothing};
use crate::command::{Outcome, client};
use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::rehearsal::RehearsalArgs;
use crate::session::{NoSecrets, Session, client_files};
use crate::{confirm, runtime};

/// Delete the VMs of nodes and create them again
///
/// Each node is drained, removed from etcd if it is a control plane, and deleted. Then it is created
/// again, as `up` does, with the same name, vmid, MAC and address. All data on its disks is lost. Control planes are replaced one by
/// one, and only while etcd keeps its quorum; the only control plane of a cluster cannot be replaced.
///
/// On a terminal the name of each node must be entered to confirm the loss of its disks. In scripts, pass
/// both --allow-removal and --yes.
#[derive(Debug, Args)]
pub(super) struct ReplaceArgs {
    /// Nodes, by their names in the inventory
    #[arg(value_name = "NODE", required = true)]
    nodes: Vec<String>,

    /// Cluster of the nodes [default: the only cluster of the inventory]
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<String>,

    /// Do not ask for confirmation of the plan
    #[arg(long, short)]
    yes: bool,

    /// Delete the disks of these nodes without asking for their names
    #[arg(long)]
    allow_removal: bool,

    /// Maximum number of workers that are unavailable at a time; control planes always go one by one
    #[arg(long, value_name = "WORKERS", default_value = "1")]
    max_unavailable: NonZeroUsize,

    #[command(flatten)]
    rehearsal: RehearsalArgs,
}

pub(super) fn run(args: &ReplaceArgs, global: &Global, printer: &Printer) -> Outcome {
    runtime::run(async {
        let cluster = args.cluster.as_deref();
        let session =
            Session::open_with(global, cluster, &args.rehearsal, printer, NoSecrets::Refuse)
                .await?;
        let ended = replace(args, &session, printer).await;
        session.close().await?;
        ended
    })
}

async fn replace(args: &ReplaceArgs, session: &Session, printer: &Printer) -> Outcome {
    let nodes = named(&args.nodes, &session.desired)?;
    let scope = Scope {
        nodes: Some(nodes.clone()),
        replace: nodes.clone(),
        // The plan is made as if the user had given consent. `ask` then asks for the consent.
        removal: RemovalConsent::Nodes(nodes.clone()),
        max_unavailable: args.max_unavailable,
        ..Scope::default()
    };
    let ask = |plan: &Plan| {
        refuse_left(plan, &nodes)?;
        if session.is_own_lab() {
            return Ok(());
        }
        refuse_client_files(plan, session)?;
        if args.allow_removal {
            return if args.yes { Ok(()) } else { confirm::require_yes("Execute this plan?") };
        }
        for name in &nodes {
            let question = format!(
                "All data on the disks of {name} will be deleted. To confirm, enter the name of the node, `{name}`:"
            );
            confirm::require_node_name(&question, name)?;
        }
        Ok(())
    };
    let plan_of = async || plan_of(&scope, session).await;
    let nothing = "no node is replaced";
    let command = PlanCommand { name: "node replace", nothing, write: writer(session) };
    command.run(session, plan_of, ask, printer).await
}

async fn plan_of(scope: &Scope, session: &Session) -> Result<Plan, CommandError> {
    let mut observed = session.observe().await?;
    session.observe_image_contents(&mut observed).await;
    let options = session.options(&observed);
    Ok(planning::plan_within(&session.desired, &observed, options, scope))
}

/// Returns an error if the plan leaves the replacement of one of the nodes.
fn refuse_left(plan: &Plan, nodes: &BTreeSet<String>) -> Result<(), CommandError> {
    let is_of_node = |object: &Object| match object {
        Object::Vm(name) | Object::Node(name) => nodes.contains(name),
        _ => false,
    };
    let is_left = |change: &&Change| {
        let why = [Left::NeedsConsent, Left::Impossible, Left::Blocked].map(Some);
        is_of_node(&change.object) && why.contains(&change.left)
    };
    let Some(change) = plan.changes.iter().find(is_left) else { return Ok(()) };
    let why = change.note.as_ref().map(|note| format!(": {note}")).unwrap_or_default();
    let message = format!("nothing was changed: {} cannot be replaced{why}", change.object);
    Err(CommandError::failed(CommandCode::PlanBlocked, message)
        .hint("omit the node, or make the replacement possible first")
        .detail("plan", show::json(plan)))
}

/// Returns an error if the plan would overwrite client files of another cluster.
fn refuse_client_files(plan: &Plan, session: &Session) -> Result<(), CommandError> {
    let is_write = |step: &Step| matches!(step.action, Action::WriteClientFiles(_));
    if !plan.steps.iter().any(is_write) {
        return Ok(());
    }
    let paths = session.client_paths();
    session.chosen.refuse_outside(&paths.kubeconfig)?;
    session.chosen.refuse_outside(&paths.talosconfig)?;
    if session.lab.is_some() {
        client::refuse_real(&paths)?;
    }
    client_files::refuse_others(&paths, &session.bundle)
}

/// Function that writes the client files beside the inventory, as `up` does when nodes join.
fn writer(session: &Session) -> WriteFiles {
    if session.is_own_lab() {
        return writes_nothing();
    }
    let (paths, is_lab) = (session.client_paths(), session.lab.is_some());
    Arc::new(move |files: ClientFiles| {
        client::put(&paths, &files, is_lab, false).map_err(|error| error.chain())?;
        Ok(())
    })
}
