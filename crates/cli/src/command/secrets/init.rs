//! `talmox secrets init`

use clap::Args;

use super::{ClusterArg, RecipientArgs, report};
use crate::args::Global;
use crate::choose;
use crate::command::Outcome;
use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::secrets::{self, SecretsFile, cluster_evidence};

/// Generate the secrets of a new cluster
///
/// Existing secrets are never replaced, and none are generated if a VM, a client file, a run log or a rendered config
/// shows that the cluster exists. They are encrypted for the recipients of .sops.yaml, or else of SOPS_AGE_RECIPIENTS,
/// or else for your age key, which is created if it is missing. It is an error if the recipients do not include one of
/// your keys: you could not decrypt the file.
#[derive(Debug, Args)]
pub(crate) struct SecretsInitArgs {
    #[command(flatten)]
    cluster: ClusterArg,
    #[command(flatten)]
    recipients: RecipientArgs,

    /// Generate secrets although Proxmox does not answer; only for a cluster that was never created
    #[arg(long)]
    new_cluster: bool,
}

pub(super) fn run(args: &SecretsInitArgs, global: &Global, printer: &Printer) -> Outcome {
    let chosen = choose::one(global, args.cluster.cluster.as_deref(), printer)?;
    let _lock = secrets::lock(&chosen, printer)?;
    let file = SecretsFile::open(&chosen)?;
    if let Some(file) = &file {
        if file.bundle()?.is_some() {
            let message = format!("{} already has the secrets of the cluster", file.path.display());
            return Err(CommandError::failed(CommandCode::SecretsExist, message)
                .hint("run `talmox secrets show` to list them; talmox never replaces them, because they are the identity of the cluster"));
        }
        if !args.recipients.recipients.is_empty() {
            let message = format!("{} already has recipients", file.path.display());
            return Err(
                CommandError::usage(message).hint("run `talmox secrets rekey` to change them")
            );
        }
    }
    cluster_evidence::refuse_offline(&chosen, args.new_cluster, printer)?;
    let (file, _) = secrets::make(&chosen, file, &args.recipients.recipients, printer)?;
    report(&file, true, printer)
}
