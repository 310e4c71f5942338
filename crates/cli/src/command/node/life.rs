//! `talmox node reboot`, `shutdown`, `start`, `drain` and `uncordon`

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use clap::Args;
use talmox_plan::plan::Plan;
use talmox_plan::planning::{self, NodeCommand};

use super::node_choice::NodeChoice;
use crate::args::Global;
use crate::command::Outcome;
use crate::command::plan_command::{PlanCommand, writes_nothing};
use crate::error::CommandError;
use crate::printer::Printer;
use crate::rehearsal::RehearsalArgs;
use crate::session::{NoSecrets, Session};
use crate::{confirm, runtime};

/// Reboot nodes, one after the other
///
/// Each node is drained, rebooted, waited for and uncordoned. Workers come first, then the control planes one by one,
/// the etcd leader last. A node that does not come back stops the rest. A control plane is rebooted only if etcd keeps
/// its quorum. Nodes that do not run Talos are shut down and started by Proxmox.
#[derive(Debug, Args)]
pub(super) struct RebootArgs {
    #[command(flatten)]
    roll: RollArgs,
}

/// Shut down nodes, one after the other
///
/// Each node is drained and shut down; a VM that does not stop in time is stopped by Proxmox. The node stays cordoned
/// until `talmox node start` or `talmox up` starts it. At most one control plane may be down, so that etcd keeps its
/// quorum.
///
/// With --all the cluster goes down: the workers first, then the control planes, the etcd leader last, without draining.
/// `talmox node start --all` starts it again.
#[derive(Debug, Args)]
pub(super) struct ShutdownArgs {
    #[command(flatten)]
    roll: RollArgs,
}

/// Start nodes that were shut down
///
/// Starts the VMs, control planes first, waits until the nodes have joined, and uncordons the nodes that talmox
/// cordoned.
#[derive(Debug, Args)]
pub(super) struct StartArgs {
    #[command(flatten)]
    life: LifeArgs,
}

/// Cordon nodes and evict their pods
///
/// Works as `kubectl drain --ignore-daemonsets --delete-emptydir-data --force`, within disruption budgets. The nodes
/// stay cordoned until `talmox node uncordon` or `talmox up`.
#[derive(Debug, Args)]
pub(super) struct DrainArgs {
    #[command(flatten)]
    roll: RollArgs,
}

/// Let Kubernetes schedule pods on nodes again
///
/// Also uncordons nodes that talmox did not cordon.
#[derive(Debug, Args)]
pub(super) struct UncordonArgs {
    #[command(flatten)]
    life: LifeArgs,
}

#[derive(Debug, Args)]
struct RollArgs {
    // An option after the options of the lab would be listed under their heading.
    /// Maximum number of workers that are unavailable at a time; control planes always go one by one
    #[arg(long, value_name = "WORKERS", default_value = "1")]
    max_unavailable: NonZeroUsize,

    #[command(flatten)]
    life: LifeArgs,
}

#[derive(Debug, Args)]
struct LifeArgs {
    #[command(flatten)]
    choice: NodeChoice,

    /// Cluster of the nodes [default: the only cluster of the inventory]
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<String>,

    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,

    #[command(flatten)]
    rehearsal: RehearsalArgs,
}

pub(super) fn reboot(args: &RebootArgs, global: &Global, printer: &Printer) -> Outcome {
    let RollArgs { life, max_unavailable } = &args.roll;
    run(NodeCommand::Reboot, life, *max_unavailable, global, printer)
}

pub(super) fn shutdown(args: &ShutdownArgs, global: &Global, printer: &Printer) -> Outcome {
    let RollArgs { life, max_unavailable } = &args.roll;
    run(NodeCommand::Shutdown, life, *max_unavailable, global, printer)
}

pub(super) fn start(args: &StartArgs, global: &Global, printer: &Printer) -> Outcome {
    run(NodeCommand::Start, &args.life, NonZeroUsize::MIN, global, printer)
}

pub(super) fn drain(args: &DrainArgs, global: &Global, printer: &Printer) -> Outcome {
    let RollArgs { life, max_unavailable } = &args.roll;
    run(NodeCommand::Drain, life, *max_unavailable, global, printer)
}

pub(super) fn uncordon(args: &UncordonArgs, global: &Global, printer: &Printer) -> Outcome {
    run(NodeCommand::Uncordon, &args.life, NonZeroUsize::MIN, global, printer)
}

fn run(
    command: NodeCommand,
    args: &LifeArgs,
    max_unavailable: NonZeroUsize,
    global: &Global,
    printer: &Printer,
) -> Outcome {
    runtime::run(async {
        let cluster = args.cluster.as_deref();
        let session =
            Session::open_with(global, cluster, &args.rehearsal, printer, NoSecrets::Refuse)
                .await?;
        let ended = execute(command, args, max_unavailable, &session, printer).await;
        session.close().await?;
        ended
    })
}

async fn execute(
    command: NodeCommand,
    args: &LifeArgs,
    max_unavailable: NonZeroUsize,
    session: &Session,
    printer: &Printer,
) -> Outcome {
    let nodes = args.choice.names(&session.desired)?;
    let is_whole = nodes.len() == session.desired.nodes.len();
    let question = if command == NodeCommand::Shutdown && is_whole {
        "The cluster goes down: all its nodes are shut down. Execute this plan?"
    } else {
        "Execute this plan?"
    };
    let (name, nothing) = texts(command);
    let is_asked = !args.yes && !session.is_own_lab();
    let ask = |_: &Plan| if is_asked { confirm::require_yes(question) } else { Ok(()) };
    let plan_of = async || plan_of(command, &nodes, max_unavailable, session).await;
    let command = PlanCommand { name, nothing, write: writes_nothing() };
    command.run(session, plan_of, ask, printer).await
}

async fn plan_of(
    command: NodeCommand,
    nodes: &BTreeSet<String>,
    max_unavailable: NonZeroUsize,
    session: &Session,
) -> Result<Plan, CommandError> {
    let observed = session.observe().await?;
    Ok(planning::node_command(&session.desired, &observed, command, nodes, max_unavailable))
}

/// Name of a command for the lock and the run log, and the message for a plan without steps.
fn texts(command: NodeCommand) -> (&'static str, &'static str) {
    match command {
        NodeCommand::Reboot => ("node reboot", "no node was chosen"),
        NodeCommand::Shutdown => ("node shutdown", "the nodes do not run"),
        NodeCommand::Start => ("node start", "the nodes run"),
        NodeCommand::Drain => ("node drain", "no node was chosen"),
        NodeCommand::Uncordon => ("node uncordon", "the nodes are not cordoned"),
    }
}
