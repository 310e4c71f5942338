//! `talmox lab`

pub(crate) mod serve;
mod violations;
mod welcome;

use clap::{Args, Subcommand};

use super::Outcome;
use crate::args::Global;
use crate::printer::Printer;

/// Run a lab: a simulated Proxmox VE on this machine
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, subcommand_required = true)]
#[command(disable_help_subcommand = true)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    Serve(serve::ServeArgs),
}

pub(crate) fn run(args: &LabArgs, global: &Global, printer: &Printer) -> Outcome {
    match &args.command {
        LabCommand::Serve(args) => serve::run(args, global, printer),
    }
}
