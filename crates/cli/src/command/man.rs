//! `talmox man`

use std::path::PathBuf;

use clap::{Args, CommandFactory as _};

use super::Outcome;
use crate::args::Cli;
use crate::command_code::CommandCode;
use crate::error::{CommandError, Exit};
use crate::printer::Printer;

const AFTER_HELP: &str = "\
Examples:
  talmox man ~/.local/share/man/man1
  man talmox-up";

/// Write manual pages, one for each command
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ManArgs {
    /// Folder to write to; existing pages are replaced
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn run(args: &ManArgs, printer: &Printer) -> Outcome {
    let folder = &args.folder;
    let failed = |error| {
        CommandError::failed(
            CommandCode::FileUnwritable,
            format!("cannot write to {}", folder.display()),
        )
        .because(error)
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    // The help subcommand of clap needs no page.
    clap_mangen::generate_to(Cli::command().disable_help_subcommand(true), folder)
        .map_err(failed)?;
    printer.say(&format!("wrote the manual to {}", folder.display()));
    Ok(Exit::Fine)
}
