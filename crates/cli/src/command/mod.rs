//! One file per command.

mod carry_out;
pub(crate) mod check;
mod client;
pub(crate) mod config;
pub(crate) mod destroy;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod kubeconfig;
pub(crate) mod lab;
pub(crate) mod node;
pub(crate) mod output;
pub(crate) mod plan;
pub(crate) mod render;
pub(crate) mod runs;
pub(crate) mod schema;
pub(crate) mod secrets;
pub(crate) mod status;
pub(crate) mod talosconfig;
pub(crate) mod template;
pub(crate) mod up;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::args::{Cli, Command};
use crate::error::{CommandError, Exit};
use crate::printer::Printer;

pub(crate) type Outcome = Result<Exit, CommandError>;

/// Runs the command line and tells what became of it.
pub(crate) fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error).into(),
    };
    let printer = Printer::new(cli.global.format, cli.global.color);
    let outcome = match cli.command {
        Command::Init(args) => init::run(&args, &cli.global, &printer),
        Command::Check(args) => check::run(&args, &cli.global, &printer),
        Command::Config(args) => config::run(&args, &printer),
        Command::Export(args) => export::run(&args, &cli.global, &printer),
        Command::Import(args) => import::run(&args, &cli.global, &printer),
        Command::Schema(_) => schema::run(&printer),
        Command::Secrets(args) => secrets::run(&args, &cli.global, &printer),
        Command::Kubeconfig(args) => kubeconfig::run(&args, &cli.global, &printer),
        Command::Lab(args) => lab::run(&args, &cli.global, &printer),
        Command::Node(args) => node::run(&args, &cli.global, &printer),
        Command::Plan(args) => plan::run(&args, &cli.global, &printer),
        Command::Up(args) => up::run(&args, &cli.global, &printer),
        Command::Status(args) => status::run(&args, &cli.global, &printer),
        Command::Output(args) => output::run(&args, &cli.global, &printer),
        Command::Template(args) => template::run(&args, &cli.global, &printer),
        Command::Destroy(args) => destroy::run(&args, &cli.global, &printer),
        Command::Runs(args) => runs::run(&args, &cli.global, &printer),
        Command::Render(args) => render::run(&args, &cli.global, &printer),
        Command::Talosconfig(args) => talosconfig::run(&args, &cli.global, &printer),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) => {
            printer.error(&error.chain(), error.hint.as_deref());
            error.exit.into()
        }
    }
}

/// Help and version are asked for; everything else is wrong usage.
fn usage(error: &clap::Error) -> Exit {
    // A closed stdout or stderr leaves nobody to tell.
    error.print().ok();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Fine,
        _ => Exit::Usage,
    }
}
