//! `talmox secrets`

mod edit;
mod import;
mod init;
mod rekey;
mod set;
mod show;

use clap::{Args, Subcommand};
use talmox_talos_config::age::Recipient;

use super::Outcome;
use crate::args::Global;
use crate::printer::Printer;

/// Make, show and change the secrets of a cluster
///
/// They are kept in secrets.sops.yaml beside cluster.yaml, in the format of sops with age keys.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, subcommand_required = true)]
#[command(disable_help_subcommand = true)]
pub(crate) struct SecretsArgs {
    #[command(subcommand)]
    command: SecretsCommand,
}

#[derive(Debug, Subcommand)]
enum SecretsCommand {
    Init(init::InitArgs),
    Show(show::ShowArgs),
    Edit(edit::EditArgs),
    Set(set::SetArgs),
    Rekey(rekey::RekeyArgs),
    Import(import::ImportArgs),
}

#[derive(Debug, Args)]
struct ClusterArg {
    /// The cluster [default: the only one of the inventory]
    #[arg(value_name = "CLUSTER")]
    cluster: Option<String>,
}

#[derive(Debug, Args)]
struct RecipientArgs {
    /// An age recipient to encrypt for, instead of those of .sops.yaml; repeatable
    #[arg(long = "recipient", short, value_name = "AGE1…", value_parser = Recipient::parse)]
    recipients: Vec<Recipient>,
}

pub(crate) fn run(args: &SecretsArgs, global: &Global, printer: &Printer) -> Outcome {
    match &args.command {
        SecretsCommand::Init(args) => init::run(args, global, printer),
        SecretsCommand::Show(args) => show::run(args, global, printer),
        SecretsCommand::Edit(args) => edit::run(args, global, printer),
        SecretsCommand::Set(args) => set::run(args, global, printer),
        SecretsCommand::Rekey(args) => rekey::run(args, global, printer),
        SecretsCommand::Import(args) => import::run(args, global, printer),
    }
}
