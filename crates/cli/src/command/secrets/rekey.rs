//! `talmox secrets rekey`

use clap::Args;

use super::{ClusterArg, RecipientArgs, report};
use crate::args::Global;
use crate::choose;
use crate::command::Outcome;
use crate::command_code::CommandCode;
use crate::environment;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::secrets::{self, Keyring, SecretsFile, recipients};

/// Encrypt the secrets again, for the current recipients
///
/// Removed recipients cannot decrypt the new file, but can still decrypt older versions of it.
#[derive(Debug, Args)]
pub(crate) struct RekeyArgs {
    #[command(flatten)]
    cluster: ClusterArg,
    #[command(flatten)]
    recipients: RecipientArgs,
}

pub(super) fn run(args: &RekeyArgs, global: &Global, printer: &Printer) -> Outcome {
    let chosen = choose::one(global, args.cluster.cluster.as_deref(), printer)?;
    let _lock = secrets::lock(&chosen, printer)?;
    let mut file = SecretsFile::open_existing(&chosen)?;
    let recipient_set = recipients::named(&file.path, &args.recipients.recipients, printer)?;
    let recipient_set = recipient_set.ok_or_else(|| {
        CommandError::usage_as(
            CommandCode::RecipientsInvalid,
            "no recipients: there is no .sops.yaml with creation rules",
        )
        .hint("pass --recipient for every recipient, including your own")
    })?;
    if !Keyring::find()?.opens_any(&recipient_set.recipients) {
        let message = "none of your age keys could decrypt the file afterwards";
        return Err(CommandError::failed(CommandCode::SecretsUnencryptable, message)
            .hint("include your own recipient"));
    }
    file.document.rekey(&recipient_set.recipients, &mut environment::Kernel).map_err(|error| {
        CommandError::failed(
            CommandCode::SecretsUnencryptable,
            format!("cannot rekey {}", file.path.display()),
        )
        .because(error)
    })?;
    file.save()?;
    let names: Vec<String> = recipient_set.recipients.iter().map(ToString::to_string).collect();
    let path = file.path.display();
    printer.say(&format!(
        "wrote {path}, encrypted for {} ({})",
        names.join(", "),
        recipient_set.origin
    ));
    report(&file, true, printer)
}
