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
use crate::secrets::{self, Keyring, SecretsFile, audience};

/// Encrypt the secrets anew, for the recipients of now
///
/// Whoever is no longer named cannot read what is written from now on; what they could read before,
/// they may have kept.
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
    let audience = audience::named(&file.path, &args.recipients.recipients, printer)?;
    let audience = audience.ok_or_else(|| {
        CommandError::usage_as(
            CommandCode::RecipientsInvalid,
            "nobody says for whom: there is no .sops.yaml with creation rules",
        )
        .hint("name the recipients with --recipient, your own among them")
    })?;
    if !Keyring::find()?.opens_any(&audience.recipients) {
        let message = "none of your age keys could open the file afterwards";
        return Err(CommandError::failed(CommandCode::SecretsUnencryptable, message)
            .hint("name your own recipient as well"));
    }
    file.document.rekey(&audience.recipients, &mut environment::Kernel).map_err(|error| {
        CommandError::failed(
            CommandCode::SecretsUnencryptable,
            format!("cannot rekey {}", file.path.display()),
        )
        .because(error)
    })?;
    file.save()?;
    let names: Vec<String> = audience.recipients.iter().map(ToString::to_string).collect();
    let path = file.path.display();
    printer.say(&format!("wrote {path}, encrypted for {} ({})", names.join(", "), audience.origin));
    report(&file, true, printer)
}
