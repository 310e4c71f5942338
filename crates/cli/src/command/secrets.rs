//! `talmox secrets`

mod edit;
pub(crate) mod import;
mod init;
mod rekey;
mod set;
mod show;

use clap::{Args, Subcommand};
use serde_json::json;
use talmox_talos_config::age::Recipient;

use super::Outcome;
use crate::args::{Format, Global};
use crate::error::Exit;
use crate::printer::Printer;
use crate::secrets::SecretsFile;

const AFTER_HELP: &str = "\
Examples:
  talmox secrets init                            also done by `up`
  talmox secrets set proxmox.token < token.txt
  talmox secrets show --resolve                  list missing secrets too
  talmox secrets import secrets.yaml             of an existing cluster";

/// Create, show and change the secrets of a cluster
///
/// The secrets are in secrets.sops.yaml beside cluster.yaml, encrypted in the format of sops with age keys.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, subcommand_required = true)]
#[command(disable_help_subcommand = true)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SecretsArgs {
    #[command(subcommand)]
    command: SecretsCommand,
}

#[derive(Debug, Subcommand)]
enum SecretsCommand {
    Init(init::SecretsInitArgs),
    Show(show::SecretsShowArgs),
    Edit(edit::EditArgs),
    Set(set::SetArgs),
    Rekey(rekey::RekeyArgs),
    Import(import::SecretsImportArgs),
}

#[derive(Debug, Args)]
struct ClusterArg {
    /// Cluster [default: the only cluster of the inventory]
    #[arg(value_name = "CLUSTER")]
    cluster: Option<String>,
}

#[derive(Debug, Args)]
struct RecipientArgs {
    /// Age recipient, instead of those of .sops.yaml; repeatable
    #[arg(long = "recipient", short, value_name = "AGE1…", value_parser = Recipient::parse)]
    recipients: Vec<Recipient>,
}

/// Prints the JSON result of a command that may have written the secrets file.
fn report(file: &SecretsFile, is_written: bool, printer: &Printer) -> Outcome {
    if printer.format == Format::Json {
        let recipients: Vec<&str> = file.document.recipients().collect();
        let written = is_written.then(|| file.path.display().to_string());
        let result = json!({ "written": written, "recipients": recipients });
        printer.result(&format!("{result:#}\n"))?;
    }
    Ok(Exit::Fine)
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
