//! `talmox export`: an inventory in the formats of other tools.

mod nodes_json;
mod tfvars;

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use talmox_talos_config::secret::SecretText;

use super::Outcome;
use crate::args::Global;
use crate::choose::{self, Chosen};
use crate::error::Exit;
use crate::new_file::{NewFile, is_folder, refuse_existing, write_all};
use crate::printer::Printer;
use crate::regular_file;
use crate::secrets::SecretsFile;

const AFTER_HELP: &str = "\
Examples:
  talmox export tfvars
  talmox export tfvars > dev.auto.tfvars.json
  talmox export nodes-json --output - | jq .workers";

/// Export an inventory for other tools
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ExportArgs {
    #[command(subcommand)]
    form: ExportCommand,
}

#[derive(Debug, Subcommand)]
enum ExportCommand {
    /// Write a variable file for Terraform, with the inputs of each VM
    ///
    /// The variable `talos_machines` is a map of node names to VM inputs.
    Tfvars(FormArgs),
    /// Write a nodes.json, with names, leases and addresses
    NodesJson(FormArgs),
}

#[derive(Debug, Args)]
struct FormArgs {
    /// Cluster [default: the only cluster of the inventory]
    #[arg(value_name = "CLUSTER")]
    cluster: Option<String>,

    /// File to write; `-` for stdout [default: stdout if it is redirected, or else talos-machines.auto.tfvars.json or
    /// nodes.json]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &ExportArgs, global: &Global, printer: &Printer) -> Outcome {
    let (ExportCommand::Tfvars(form) | ExportCommand::NodesJson(form)) = &args.form;
    let chosen = choose::one(global, form.cluster.as_deref(), printer)?;
    let cluster = chosen.cluster();
    let (file_name, exported) = match &args.form {
        ExportCommand::Tfvars(_) => {
            (tfvars::FILE_NAME, tfvars::export(cluster, cluster_id(&chosen).as_deref(), printer))
        }
        ExportCommand::NodesJson(_) => (nodes_json::FILE_NAME, nodes_json::export(cluster)),
    };
    let text = format!("{exported:#}\n");
    // Redirected output is written to stdout, as in `export tfvars > FILE`. With `--force` a file is written.
    let is_file = form.force || io::stdout().is_terminal();
    let usual = if is_file { file_name } else { "-" };
    let path = form.output.as_deref().unwrap_or(Path::new(usual));
    if path == Path::new("-") {
        printer.file(&text)?;
        return Ok(Exit::Fine);
    }
    let path = if is_folder(path) { path.join(file_name) } else { path.to_owned() };
    let known = regular_file::read(&path, regular_file::LARGEST_OWN);
    if known.is_ok_and(|known| known == text.as_bytes()) {
        printer.say(&format!("{} is up to date", path.display()));
        return Ok(Exit::Fine);
    }
    if !form.force {
        refuse_existing(
            [&path],
            "pass --force to replace it, or `--output -` to print the new content",
        )?;
    }
    write_all(&[NewFile { path: path.clone(), text: SecretText::new(text), is_secret: false }])?;
    printer.say(&format!("wrote {}", path.display()));
    Ok(Exit::Fine)
}

/// ID of the cluster. `None` if the secrets of the cluster are missing or cannot be decrypted.
fn cluster_id(chosen: &Chosen) -> Option<String> {
    let bundle = SecretsFile::open(chosen).ok()??.bundle().ok()??;
    Some(bundle.cluster.id.clone())
}
