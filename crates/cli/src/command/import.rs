//! `talmox import`: an inventory from files of other tools.

mod files;
mod nodes_json;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Outcome, init, schema};
use crate::args::Global;
use crate::command_code::CommandCode;
use crate::error::{CommandError, Exit};
use crate::new_file::{refuse_existing, write_new};
use crate::printer::Printer;
use crate::regular_file;

const AFTER_HELP: &str = "\
Examples:
  talmox import nodes-json nodes.json --name dev";

/// Import an inventory from files of other tools
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    form: ImportCommand,
}

#[derive(Debug, Subcommand)]
enum ImportCommand {
    /// Import a nodes.json, with names, leases and addresses
    ///
    /// Missing settings are written as comments to fill in. Existing files are never overwritten.
    NodesJson(NodesJsonArgs),
}

#[derive(Debug, Args)]
struct NodesJsonArgs {
    /// The nodes.json to import
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Name of the cluster
    #[arg(long, value_name = "CLUSTER", default_value = "home")]
    name: String,

    /// Talos version of the nodes
    #[arg(long, value_name = "VERSION", default_value = "v1.13.9")]
    talos_version: String,
}

pub(crate) fn run(args: &ImportArgs, global: &Global, printer: &Printer) -> Outcome {
    let ImportCommand::NodesJson(args) = &args.form;
    if !is_name(&args.name) {
        let message = format!("`{}` is not the name of a cluster", args.name);
        return Err(CommandError::usage(message).hint("use lower-case letters, digits and `-`"));
    }
    let root = global.inventory.clone().unwrap_or_else(|| PathBuf::from("inventory"));
    let folder = root.join(&args.name);
    let [cluster_path, nodes_path] = ["cluster.yaml", "nodes.yaml"].map(|name| folder.join(name));
    let hint = "pass another --name; import never overwrites files";
    refuse_existing([&cluster_path, &nodes_path], hint)?;

    let shown = args.file.display();
    let text = regular_file::read_text_argument(&args.file).map_err(|error| {
        CommandError::failed(CommandCode::FileUnreadable, format!("cannot read {shown}"))
            .because(error)
    })?;
    let mut found = nodes_json::read(&text).map_err(|problem| {
        let error = CommandError::failed(
            CommandCode::ImportInvalid,
            format!("{shown}: {}", problem.message),
        );
        match problem.hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    })?;
    for warning in found.settle() {
        printer.say(&format!("{} {shown}: {warning}", printer.paint("warning:", "1;33")));
    }
    let cluster = files::cluster(&found, &args.name, &args.talos_version);
    let nodes = files::nodes(&found);
    // The error is in the imported file and not in the command line.
    init::refuse_bad(&root, &folder, &cluster, &nodes).map_err(|mut error| {
        error.exit = Exit::Failed;
        error
    })?;
    let mut written = vec![write_new(&cluster_path, &cluster)?, write_new(&nodes_path, &nodes)?];
    let schema_path = root.join("talmox.schema.json");
    if !schema_path.exists() {
        written.push(write_new(&schema_path, &schema::text())?);
    }
    init::report(&root, &folder, &written, printer)
}

/// Whether a text is a valid name of a cluster or node. Such names are used in YAML and in paths.
fn is_name(text: &str) -> bool {
    let is_good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&text.len())
        && text.chars().all(is_good)
        && !text.starts_with('-')
        && !text.ends_with('-')
}
