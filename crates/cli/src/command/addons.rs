//! `talmox addons`: the add-ons of a cluster.

mod list;
mod selection;
mod update;
mod vendor;

use clap::{Args, Subcommand};

use super::Outcome;
use crate::args::Global;
use crate::printer::Printer;

const AFTER_HELP: &str = "\
Examples:
  talmox addons list
  talmox addons vendor cilium
  talmox addons update

`up` applies add-ons. These commands need no cluster: they read and write the
files beside the inventory.";

/// List add-ons, and store or update their charts
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, subcommand_required = true)]
#[command(disable_help_subcommand = true, after_help = AFTER_HELP)]
pub(crate) struct AddonsArgs {
    #[command(subcommand)]
    command: AddonsCommand,
}

#[derive(Debug, Subcommand)]
enum AddonsCommand {
    List(list::ListArgs),
    Vendor(vendor::VendorArgs),
    Update(update::UpdateArgs),
}

pub(crate) fn run(args: &AddonsArgs, global: &Global, printer: &Printer) -> Outcome {
    match &args.command {
        AddonsCommand::List(args) => list::run(args, global, printer),
        AddonsCommand::Vendor(args) => vendor::run(args, global, printer),
        AddonsCommand::Update(args) => update::run(args, global, printer),
    }
}
