//! `talmox export`: an inventory in the form that other tools read.

mod nodes_json;
mod tfvars;

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use talmox_model::{Cluster, Inventory};

use super::{Outcome, check};
use crate::args::Global;
use crate::error::{CommandError, Exit};
use crate::new_file::{NewFile, is_folder, refuse_existing, write_all};
use crate::printer::Printer;
use crate::render;

/// Write an inventory for other tools
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct ExportArgs {
    #[command(subcommand)]
    form: Form,
}

#[derive(Debug, Subcommand)]
enum Form {
    /// Write a variable file for Terraform: the inputs of each VM
    ///
    /// The variable `talos_machines` is a map from the name of a node to its VM.
    Tfvars(FormArgs),
    /// Write a nodes.json: names, leases and addresses
    NodesJson(FormArgs),
}

#[derive(Debug, Args)]
struct FormArgs {
    /// The cluster [default: the only one]
    #[arg(value_name = "CLUSTER")]
    cluster: Option<String>,

    /// The file to write; `-` for stdout [default: talos-machines.auto.tfvars.json or nodes.json]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &ExportArgs, global: &Global, printer: &Printer) -> Outcome {
    let (Form::Tfvars(form) | Form::NodesJson(form)) = &args.form;
    let names: Vec<String> = form.cluster.iter().cloned().collect();
    let inventory = check::load(global.inventory.as_deref(), &names)?;
    let cluster = only_cluster(&inventory, printer)?;
    let (file_name, exported) = match &args.form {
        Form::Tfvars(_) => (tfvars::FILE_NAME, tfvars::export(cluster, printer)),
        Form::NodesJson(_) => (nodes_json::FILE_NAME, nodes_json::export(cluster)),
    };
    let text = format!("{exported:#}\n");
    let path = form.output.as_deref().unwrap_or(Path::new(file_name));
    if path == Path::new("-") {
        printer.result(&text);
        return Ok(Exit::Fine);
    }
    let path = if is_folder(path) { path.join(file_name) } else { path.to_owned() };
    if fs::read(&path).is_ok_and(|known| known == text.as_bytes()) {
        printer.say(&format!("{} is up to date", path.display()));
        return Ok(Exit::Fine);
    }
    if !form.force {
        refuse_existing([&path], "--force replaces it; `--output -` shows what would be written")?;
    }
    write_all(&[NewFile { path: path.clone(), text, is_secret: false }])?;
    printer.say(&format!("wrote {}", path.display()));
    Ok(Exit::Fine)
}

/// The cluster to export. One with errors would only spread them.
fn only_cluster<'a>(
    inventory: &'a Inventory,
    printer: &Printer,
) -> Result<&'a Cluster, CommandError> {
    let [cluster] = inventory.clusters.as_slice() else {
        let names: Vec<&str> =
            inventory.clusters.iter().map(|cluster| cluster.name.as_str()).collect();
        let error = CommandError::usage("the inventory has several clusters");
        return Err(error.hint(format!("name one of them: {}", names.join(", "))));
    };
    if inventory.has_errors() {
        printer.say_raw(&render::text(inventory, printer.color));
        let error = CommandError::failed("the inventory has errors");
        return Err(error.hint("correct them first; nothing was written"));
    }
    Ok(cluster)
}
