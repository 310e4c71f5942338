//! `talmox secrets init`

use clap::Args;
use serde_json::json;

use super::{ClusterArg, RecipientArgs};
use crate::args::{Format, Global};
use crate::choose;
use crate::command::Outcome;
use crate::error::{CommandError, Exit};
use crate::printer::Printer;
use crate::secrets::{self, SecretsFile};

/// Make the secrets of a new cluster
///
/// Existing secrets are never made anew. They are encrypted for the recipients of .sops.yaml, else
/// of SOPS_AGE_RECIPIENTS, else for your own age key; if there is none, one is made.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    #[command(flatten)]
    cluster: ClusterArg,
    #[command(flatten)]
    recipients: RecipientArgs,
}

pub(super) fn run(args: &InitArgs, global: &Global, printer: &Printer) -> Outcome {
    let chosen = choose::one(global, args.cluster.cluster.as_deref(), printer)?;
    let file = SecretsFile::open(&chosen)?;
    if let Some(file) = &file {
        if file.bundle()?.is_some() {
            let message = format!("{} holds the secrets of the cluster", file.path.display());
            return Err(CommandError::failed(message)
                .hint("they are its identity and never made anew; `talmox secrets show`"));
        }
        if !args.recipients.recipients.is_empty() {
            let message = format!("{} has its recipients already", file.path.display());
            return Err(CommandError::usage(message).hint("`talmox secrets rekey` changes them"));
        }
    }
    let (file, _) = secrets::make(&chosen, file, &args.recipients.recipients, printer)?;
    if printer.format == Format::Json {
        let recipients: Vec<&str> = file.document.recipients().collect();
        let result =
            json!({ "written": file.path.display().to_string(), "recipients": recipients });
        printer.result(&format!("{result:#}\n"));
    }
    Ok(Exit::Fine)
}
