//! `talmox etcd`: the etcd members of a cluster.

mod alarms;
mod cluster_view;
mod defrag;
mod members;
mod remove_member;

use clap::{Args, Subcommand};

use super::Outcome;
use crate::args::Global;
use crate::printer::Printer;
use crate::rehearsal::RehearsalArgs;

const AFTER_HELP: &str = "\
Examples:
  talmox etcd members
  talmox etcd remove-member dev-cp-3
  talmox etcd defrag
  talmox etcd alarms --disarm

`remove-member`, `defrag` and `alarms --disarm` show a plan, ask for
confirmation, lock the cluster and write a run log, as `up` does.";

/// Show and maintain the etcd members of a cluster
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, subcommand_required = true)]
#[command(disable_help_subcommand = true, after_help = AFTER_HELP)]
pub(crate) struct EtcdArgs {
    #[command(subcommand)]
    command: EtcdCommand,
}

#[derive(Debug, Subcommand)]
enum EtcdCommand {
    Members(members::MembersArgs),
    RemoveMember(remove_member::RemoveMemberArgs),
    Defrag(defrag::DefragArgs),
    Alarms(alarms::AlarmsArgs),
}

#[derive(Debug, Args)]
struct ClusterArgs {
    /// Cluster [default: the only cluster of the inventory]
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<String>,

    #[command(flatten)]
    rehearsal: RehearsalArgs,
}

pub(crate) fn run(args: &EtcdArgs, global: &Global, printer: &Printer) -> Outcome {
    match &args.command {
        EtcdCommand::Members(args) => members::run(args, global, printer),
        EtcdCommand::RemoveMember(args) => remove_member::run(args, global, printer),
        EtcdCommand::Defrag(args) => defrag::run(args, global, printer),
        EtcdCommand::Alarms(args) => alarms::run(args, global, printer),
    }
}
