//! Commands, one file each.

pub(crate) mod addons;
pub(crate) mod adopt;
pub(crate) mod check;
mod client;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod destroy;
mod draft;
pub(crate) mod etcd;
mod execute_plan;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod kubeconfig;
pub(crate) mod lab;
mod locked_plan;
pub(crate) mod man;
pub(crate) mod node;
pub(crate) mod output;
pub(crate) mod plan;
mod plan_command;
pub(crate) mod render;
pub(crate) mod runs;
pub(crate) mod schema;
mod scope_args;
pub(crate) mod secrets;
pub(crate) mod status;
pub(crate) mod talosconfig;
pub(crate) mod template;
mod unknown_command;
pub(crate) mod unlock;
pub(crate) mod up;

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use talmox_plan::plan::{Plan, show};

use crate::args::{Cli, Color, Command, Format, Global};
use crate::command_code::CommandCode;
use crate::error::{CommandError, Exit};
use crate::escape::styled_by_library;
use crate::interrupt;
use crate::printer::Printer;
use crate::rehearsal::RehearsalArgs;
use crate::{trace, words};

pub(crate) type Outcome = Result<Exit, CommandError>;

/// Runs the command that the command line selects, and returns the exit code.
pub(crate) fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&unknown_command::with_advice(error)).into(),
    };
    let printer = Printer::new(cli.global.format, cli.global.color).quiet(cli.global.quiet);
    if let Err(error) = trace::start(&cli.global, &printer) {
        printer.error(&error);
        return error.exit.into();
    }
    let outcome = match cli.command {
        Command::Init(args) => init::run(&args, &cli.global, &printer),
        Command::Addons(args) => addons::run(&args, &cli.global, &printer),
        Command::Adopt(args) => adopt::run(&args, &cli.global, &printer),
        Command::Check(args) => check::run(&args, &cli.global, &printer),
        Command::Config(args) => config::run(&args, &printer),
        Command::Etcd(args) => etcd::run(&args, &cli.global, &printer),
        Command::Explain(args) => explain::run(&args, &printer),
        Command::Export(args) => export::run(&args, &cli.global, &printer),
        Command::Import(args) => import::run(&args, &cli.global, &printer),
        Command::Schema(_) => schema::run(&printer),
        Command::Completions(args) => completions::run(&args, &printer),
        Command::Man(args) => man::run(&args, &printer),
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
        Command::Unlock(args) => unlock::run(&args, &cli.global, &printer),
        Command::Runs(args) => runs::run(&args, &cli.global, &printer),
        Command::Render(args) => render::run(&args, &cli.global, &printer),
        Command::Talosconfig(args) => talosconfig::run(&args, &cli.global, &printer),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) => {
            printer.error(&error);
            error.exit.into()
        }
    }
}

/// Runs a read-only command for each cluster. After an error with one cluster, the command still runs for the other
/// clusters.
fn for_each_cluster(
    clusters: &[Option<String>],
    printer: &Printer,
    look: impl Fn(Option<&str>) -> Outcome,
) -> Outcome {
    if let [one] = clusters {
        return look(one.as_deref());
    }
    let mut worst = Exit::Fine;
    for (index, cluster) in clusters.iter().enumerate() {
        if index > 0 && printer.format == Format::Text {
            printer.result("\n")?;
        }
        let exit = match look(cluster.as_deref()) {
            Ok(exit) => exit,
            // An interrupt stops the command for all remaining clusters.
            Err(error) if interrupt::is_requested() => return Err(error),
            Err(error) => {
                printer.error(&error);
                error.exit
            }
        };
        if worst != Exit::Failed && exit != Exit::Fine {
            worst = exit;
        }
    }
    Ok(worst)
}

/// Error for a plan with errors, after they were shown. `nothing` says what the command did not do: `nothing was changed`.
fn plan_blocked(nothing: &str, plan: &Plan) -> CommandError {
    let message = format!("{nothing}: the plan has errors");
    CommandError::failed(CommandCode::PlanBlocked, message)
        .hint("fix the errors shown above, then run the same command again")
        .detail("plan", show::json(plan))
}

/// Arguments that select the same cluster in another command.
fn cluster_arguments(global: &Global, cluster: Option<&str>, rehearsal: &RehearsalArgs) -> String {
    let path = |flag: &str, path: &Option<PathBuf>| {
        path.as_ref().map(|path| format!(" {flag} {}", words::quoted(&path.display().to_string())))
    };
    let parts = [
        cluster.map(|name| format!(" {}", words::quoted(name))),
        path("--inventory", &global.inventory),
        path("--lab-at", &rehearsal.lab_at),
    ];
    parts.into_iter().flatten().collect()
}

/// Prints help, version or a usage error of the parser.
fn usage(error: &clap::Error) -> Exit {
    let is_error = match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // An error is ignored, because stdout or stderr may be closed.
            error.print().ok();
            error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        }
        _ => {
            let printer = Printer::new(Format::Text, Color::Auto);
            printer.say_raw(&usage_text(error, printer.color));
            true
        }
    };
    if !is_error {
        return Exit::Fine;
    }
    if wants_json(env::args_os()) {
        Printer::new(Format::Json, Color::Never).error_as_json(&usage_error(&error.to_string()));
    }
    Exit::Usage
}

/// Whether the arguments contain `--format json`. Used for arguments that could not be parsed.
fn wants_json(args: impl Iterator<Item = OsString>) -> bool {
    let args: Vec<OsString> = args.collect();
    args.iter().any(|arg| arg == "--format=json")
        || args.windows(2).any(|pair| pair[0] == "--format" && pair[1] == "json")
}

/// Text of a usage error, with the code of the error as all other errors have it.
fn usage_text(error: &clap::Error, color: bool) -> String {
    // Colours are marked in the text, so an escape character in an argument must not count as a colour.
    let has_escape = env::args_os().any(|arg| arg.to_string_lossy().contains('\u{1b}'));
    let text = error.render();
    let text = if color && !has_escape {
        styled_by_library(&text.ansi().to_string())
    } else {
        text.to_string()
    };
    text.replacen("error:", "error[usage]:", 1)
}

/// Converts the error text of clap. The tip of clap becomes the hint.
fn usage_error(text: &str) -> CommandError {
    let body = text.split("\n\nUsage:").next().unwrap_or(text);
    let (tips, message): (Vec<&str>, Vec<&str>) = body
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("For more information"))
        .partition(|line| line.starts_with("tip: "));
    let message = message.join(" ");
    let error = CommandError::usage(message.trim_start_matches("error: "));
    match tips.first() {
        Some(tip) => error.hint(tip.trim_start_matches("tip: ")),
        None => error.hint("run `talmox help COMMAND`"),
    }
}
