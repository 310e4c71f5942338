//! `talmox completions`

use clap::{Args, CommandFactory as _, ValueEnum};
use clap_complete::Shell;

use super::Outcome;
use crate::args::Cli;
use crate::error::Exit;
use crate::printer::Printer;

const AFTER_HELP: &str = "\
Examples:
  talmox completions bash > ~/.local/share/bash-completion/completions/talmox
  talmox completions zsh > ~/.zfunc/_talmox         with ~/.zfunc in $fpath
  talmox completions fish > ~/.config/fish/completions/talmox.fish";

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CompletionsArgs {
    /// Shell
    #[arg(value_name = "SHELL")]
    shell: ShellArg,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ShellArg {
    Bash,
    Zsh,
    Fish,
}

pub(crate) fn run(args: &CompletionsArgs, printer: &Printer) -> Outcome {
    let shell = match args.shell {
        ShellArg::Bash => Shell::Bash,
        ShellArg::Zsh => Shell::Zsh,
        ShellArg::Fish => Shell::Fish,
    };
    let mut script = vec![];
    clap_complete::generate(shell, &mut Cli::command(), "talmox", &mut script);
    printer.file(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Fine)
}
