//! `talmox secrets init`

use clap::Args;

use super::{ClusterArg, RecipientArgs, report};
use crate::args::Global;
use crate::choose;
use crate::command::Outcome;
use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::secrets::{self, SecretsFile, witness};

/// Make the secrets of a new cluster
///
/// Existing secrets are never made anew, and none are made while a VM, a client file, a run log or a rendered config shows that the
/// cluster exists. They are encrypted for the recipients of .sops.yaml, else
/// of SOPS_AGE_RECIPIENTS, else for your own age key; if there is none, one is made. Recipients of whom you are not
/// one are refused: you could not open the file again.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    #[command(flatten)]
    cluster: ClusterArg,
    #[command(flatten)]
    recipients: RecipientArgs,

    /// The cluster has never been created: make its secrets although Proxmox cannot be asked
    #[arg(long)]
    new_cluster: bool,
}

pub(super) fn run(args: &InitArgs, global: &Global, printer: &Printer) -> Outcome {
    let chosen = choose::one(global, args.cluster.cluster.as_deref(), printer)?;
    let _lock = secrets::lock(&chosen, printer)?;
    let file = SecretsFile::open(&chosen)?;
    if let Some(file) = &file {
        if file.bundle()?.is_some() {
            let message = format!("{} holds the secrets of the cluster", file.path.display());
            return Err(CommandError::failed(CommandCode::SecretsExist, message)
                .hint("they are its identity and never made anew; `talmox secrets show`"));
        }
        if !args.recipients.recipients.is_empty() {
            let message = format!("{} has its recipients already", file.path.display());
            return Err(CommandError::usage(message).hint("`talmox secrets rekey` changes them"));
        }
    }
    witness::refuse_offline(&chosen, args.new_cluster, printer)?;
    let (file, _) = secrets::make(&chosen, file, &args.recipients.recipients, printer)?;
    report(&file, true, printer)
}
