//! `talmox etcd defrag`

use std::collections::BTreeSet;

use clap::Args;
use talmox_plan::plan::Plan;
use talmox_plan::planning;

use super::ClusterArgs;
use super::cluster_view::open;
use crate::args::Global;
use crate::command::Outcome;
use crate::command::node::node_choice::named;
use crate::command::plan_command::{PlanCommand, writes_nothing};
use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::session::Session;
use crate::{confirm, runtime};

/// Defragment the databases of etcd members, one after the other
///
/// A database keeps the space of deleted data until it is defragmented. A member does not answer meanwhile, so all other
/// members must be healthy, and the leader comes last.
#[derive(Debug, Args)]
pub(super) struct DefragArgs {
    /// Control planes, by their names in the inventory [default: all]
    #[arg(value_name = "NODE")]
    nodes: Vec<String>,

    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,

    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(super) fn run(args: &DefragArgs, global: &Global, printer: &Printer) -> Outcome {
    runtime::run(async {
        let session = open(&args.cluster, global, printer).await?;
        let ended = defrag(args, &session, printer).await;
        session.close().await?;
        ended
    })
}

async fn defrag(args: &DefragArgs, session: &Session, printer: &Printer) -> Outcome {
    let nodes = chosen(args, session)?;
    let is_asked = !args.yes && !session.is_own_lab();
    let ask = |_: &Plan| {
        if is_asked { confirm::require_yes("Execute this plan?") } else { Ok(()) }
    };
    let plan_of = async || plan_of(&nodes, session).await;
    let nothing = "the cluster has no etcd members";
    let command = PlanCommand { name: "etcd defrag", nothing, write: writes_nothing() };
    command.run(session, plan_of, ask, printer).await
}

/// The names of the control planes to defragment.
fn chosen(args: &DefragArgs, session: &Session) -> Result<BTreeSet<String>, CommandError> {
    let all: BTreeSet<String> =
        session.desired.control_planes().map(|node| node.name.clone()).collect();
    if args.nodes.is_empty() {
        return Ok(all);
    }
    let nodes = named(&args.nodes, &session.desired)?;
    if let Some(other) = nodes.difference(&all).next() {
        let names: Vec<&str> = all.iter().map(String::as_str).collect();
        let message = format!("`{other}` has no etcd member");
        return Err(CommandError::usage_as(CommandCode::EtcdMemberUnknown, message)
            .hint(format!("control planes: {}", names.join(", "))));
    }
    Ok(nodes)
}

async fn plan_of(nodes: &BTreeSet<String>, session: &Session) -> Result<Plan, CommandError> {
    let observed = session.observe().await?;
    Ok(planning::defragment(&session.desired, &observed, nodes))
}
