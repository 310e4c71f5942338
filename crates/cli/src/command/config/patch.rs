//! `talmox config patch`

use std::path::PathBuf;

use clap::Args;
use talmox_talos_config::patch::apply;
use talmox_talos_config::secret::SecretText;

use super::{config_file, contract, patches, release};
use crate::command::Outcome;
use crate::command_code::CommandCode;
use crate::error::{CommandError, Exit};
use crate::new_file::{NewFile, write_all};
use crate::printer::Printer;

/// Patch a machine config
///
/// Accepts the arguments of `talosctl machineconfig patch`.
#[derive(Debug, Args)]
pub(crate) struct PatchArgs {
    /// Machine config; `-` for stdin
    #[arg(value_name = "FILE")]
    file: String,

    /// Patch: `@FILE`, a file name, or inline YAML or JSON; several patches are applied in order
    #[arg(long = "patch", short, value_name = "PATCH")]
    patches: Vec<String>,

    /// File for the patched config [default: stdout]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Talos version that reads the config [default: v1.13]
    #[arg(long, value_name = "VERSION")]
    talos_version: Option<String>,
}

pub(super) fn run(args: &PatchArgs, printer: &Printer) -> Outcome {
    let talos = args.talos_version.as_deref().map(contract).transpose()?;
    let text = SecretText::new(config_file(&args.file)?);
    let patches = patches(&args.patches, talos)?;
    let patched = apply(text.expose(), &patches, release(talos)).map_err(|error| {
        CommandError::failed(CommandCode::ConfigInvalid, format!("{} cannot be patched", args.file))
            .because(error)
    })?;
    let patched = SecretText::new(patched);
    match args.output.as_deref().filter(|path| path.as_os_str() != "-") {
        None => printer.file(patched.expose())?,
        Some(path) => {
            write_all(&[NewFile { path: path.to_owned(), text: patched, is_secret: true }])?;
            printer.say(&format!("wrote {}", path.display()));
        }
    }
    Ok(Exit::Fine)
}
