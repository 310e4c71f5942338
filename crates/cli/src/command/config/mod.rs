//! `talmox config`: machine configs without an inventory, with the subcommands of talosctl.

mod generate;
mod patch;
mod validate;

use std::io::{self, Read as _};
use std::path::Path;

use clap::{Args, Subcommand};
use talmox_talos_config::Release;
use talmox_talos_config::contract::Contract;
use talmox_talos_config::lint::{Lint, lint_kinds};
use talmox_talos_config::patch::{Patch, Source, source};

use super::Outcome;
use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::regular_file;

const AFTER_HELP: &str = "\
Examples:
  talmox config gen dev https://10.0.0.20:6443 --output configs
  talmox config patch configs/worker.yaml -p @patch.yaml -o wk-1.yaml
  talmox config validate wk-1.yaml --mode metal";

/// Generate, patch and validate machine configs
///
/// The commands accept the arguments of `talosctl gen config`, `machineconfig patch` and `validate`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    Gen(Box<generate::GenArgs>),
    Patch(patch::PatchArgs),
    Validate(validate::ValidateArgs),
}

pub(crate) fn run(args: &ConfigArgs, printer: &Printer) -> Outcome {
    match &args.command {
        ConfigCommand::Gen(args) => generate::run(args, printer),
        ConfigCommand::Patch(args) => patch::run(args, printer),
        ConfigCommand::Validate(args) => validate::run(args, printer),
    }
}

/// Parses a Talos version. Returns an error if the version is not supported.
fn contract(version: &str) -> Result<Contract, CommandError> {
    let hint = format!("use a version from {} to v1.14", Contract::OLDEST);
    let contract: Contract = version.parse().map_err(|_| {
        let message = format!("`{version}` is not a version of Talos");
        CommandError::usage(message).hint("write it as `v1.13` or `v1.13.9`")
    })?;
    if contract.support().is_none() {
        return Err(CommandError::usage(format!("Talos {contract} is not supported")).hint(hint));
    }
    Ok(contract)
}

/// Talos release whose config format belongs to a version. The default release if no version is given.
fn release(contract: Option<Contract>) -> Release {
    contract.and_then(|contract| Release::of(&contract.to_string())).unwrap_or_default()
}

/// Parses patches in the config format of a Talos version. Each patch is in a file or in the argument itself.
fn patches(arguments: &[String], talos: Option<Contract>) -> Result<Vec<Patch>, CommandError> {
    let read = |argument: &String| {
        let (name, text) = match source(argument) {
            Source::Inline(text) => ("the patch".to_owned(), text.to_owned()),
            Source::File(name) => (format!("the patch {name}"), patch_file(name)?),
        };
        Patch::parse(&text, release(talos)).map_err(|error| {
            let error =
                CommandError::failed(CommandCode::ConfigInvalid, format!("{name} cannot be read"))
                    .because(error);
            match lint_kinds(&text, talos.unwrap_or(Contract::NEWEST)).first() {
                Some(newer) => error.hint(newer.message.clone()),
                None => error,
            }
        })
    };
    arguments.iter().map(read).collect()
}

fn patch_file(name: &str) -> Result<String, CommandError> {
    let read = regular_file::read_text_argument(Path::new(name));
    read.map_err(|error| {
        let error = CommandError::failed(
            CommandCode::ConfigInvalid,
            format!("cannot read the patch {name}"),
        )
        .because(error);
        if name.starts_with("https://") || name.starts_with("http://") {
            return error.hint("download the patch and pass the path of the file");
        }
        error.hint("pass `@FILE`, a path, or inline YAML or JSON")
    })
}

/// Reads a config file, or stdin for `-`.
pub(super) fn config_file(name: &str) -> Result<String, CommandError> {
    let read = if name == "-" {
        let mut text = String::new();
        io::stdin().lock().read_to_string(&mut text).map(|_| text)
    } else {
        let read = regular_file::read_text_argument(Path::new(name));
        read.map_err(io::Error::other)
    };
    read.map_err(|error| {
        CommandError::failed(CommandCode::FileUnreadable, format!("cannot read {name}"))
            .because(error)
    })
}

/// Prints lints, one line each.
fn say_lints(lints: &[Lint], printer: &Printer) {
    let word = printer.paint("lint:", "1;33");
    for lint in lints {
        printer.say(&format!("{word} {}: {}", lint.path, lint.message));
    }
}
