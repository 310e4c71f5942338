//! `talmox node`: calls to the Talos API of one node, and commands that reboot, shut down, start, drain or replace nodes.

mod access;
mod apply;
mod apply_outcome;
mod column;
mod config_target;
mod explain;
mod get;
mod kind;
mod life;
mod lock;
mod logs;
pub(in crate::command) mod node_choice;
mod replace;
mod resource_output;
mod retry;
mod services;
mod spec;

use std::future::Future;

use clap::{Args, Subcommand};

use super::Outcome;
use crate::args::Global;
use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::printer::Printer;

const AFTER_HELP: &str = "\
Examples:
  talmox node services dev-cp-1
  talmox node get dev-cp-1 members
  talmox node logs dev-cp-1 etcd --tail 50 --follow
  talmox node apply generated/dev-cp-1.yaml dev-cp-1 --insecure --dry-run
  talmox node reboot --role worker --max-unavailable 2
  talmox node replace dev-wk-1

`reboot`, `shutdown`, `start`, `drain`, `uncordon` and `replace` show a plan,
ask for confirmation, lock the cluster and write a run log, as `up` does.

For the other commands, NODE is a name in the inventory, or an address. talmox
issues a client certificate from the secrets of the cluster, in memory, valid
for ten minutes. With `--talosconfig FILE` it uses the certificate of that file
and needs no inventory, so it works with any Talos node. `--insecure` is for a
node in maintenance mode, which does not verify clients. `--lab-at FILE` is for
a node in a lab.";

/// Query, configure, reboot, drain or replace nodes
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, subcommand_required = true)]
#[command(disable_help_subcommand = true, after_help = AFTER_HELP)]
pub(crate) struct NodeArgs {
    #[command(subcommand)]
    command: NodeCommand,
}

#[derive(Debug, Subcommand)]
enum NodeCommand {
    Get(get::GetArgs),
    Services(services::ServicesArgs),
    Logs(logs::LogsArgs),
    Dmesg(logs::DmesgArgs),
    Apply(apply::ApplyArgs),
    Reboot(life::RebootArgs),
    Shutdown(life::ShutdownArgs),
    Start(life::StartArgs),
    Drain(life::DrainArgs),
    Uncordon(life::UncordonArgs),
    Replace(replace::ReplaceArgs),
}

pub(crate) fn run(args: &NodeArgs, global: &Global, printer: &Printer) -> Outcome {
    match &args.command {
        NodeCommand::Get(args) => get::run(args, global, printer),
        NodeCommand::Services(args) => services::run(args, global, printer),
        NodeCommand::Logs(args) => logs::run(args, global, printer),
        NodeCommand::Dmesg(args) => logs::run_dmesg(args, global, printer),
        NodeCommand::Apply(args) => apply::run(args, global, printer),
        NodeCommand::Reboot(args) => life::reboot(args, global, printer),
        NodeCommand::Shutdown(args) => life::shutdown(args, global, printer),
        NodeCommand::Start(args) => life::start(args, global, printer),
        NodeCommand::Drain(args) => life::drain(args, global, printer),
        NodeCommand::Uncordon(args) => life::uncordon(args, global, printer),
        NodeCommand::Replace(args) => replace::run(args, global, printer),
    }
}

/// Runs a future on a single-threaded runtime.
fn block_on<T>(work: impl Future<Output = Result<T, CommandError>>) -> Result<T, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| {
        CommandError::failed(CommandCode::SystemFailed, "cannot use the network").because(error)
    })?;
    runtime.block_on(work)
}
