//! `talmox node`: calls to the Talos API of one node.

mod access;
mod apply;
mod apply_outcome;
mod column;
mod config_target;
mod explain;
mod get;
mod kind;
mod lock;
mod logs;
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

NODE is a name in the inventory, or an address. talmox issues a client
certificate from the secrets of the cluster, in memory, valid for ten minutes.
With `--talosconfig FILE` it uses the certificate of that file and needs no
inventory, so it works with any Talos node. `--insecure` is for a node in
maintenance mode, which does not verify clients. `--lab-at FILE` is for a node
in a lab.";

/// Query or configure a node through the Talos API
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
}

pub(crate) fn run(args: &NodeArgs, global: &Global, printer: &Printer) -> Outcome {
    match &args.command {
        NodeCommand::Get(args) => get::run(args, global, printer),
        NodeCommand::Services(args) => services::run(args, global, printer),
        NodeCommand::Logs(args) => logs::run(args, global, printer),
        NodeCommand::Dmesg(args) => logs::run_dmesg(args, global, printer),
        NodeCommand::Apply(args) => apply::run(args, global, printer),
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
