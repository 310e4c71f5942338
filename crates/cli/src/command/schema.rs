//! `talmox schema`

use clap::Args;

use super::Outcome;
use crate::error::Exit;
use crate::printer::Printer;

const AFTER_HELP: &str = "\
Examples:
  talmox schema > talmox.schema.json";

/// Print the JSON schema of the inventory, for editors
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SchemaArgs {}

pub(crate) fn run(printer: &Printer) -> Outcome {
    printer.result(&text())?;
    Ok(Exit::Fine)
}

/// Text of the schema. The same text is in the repository, and `init` writes the same text.
pub(crate) fn text() -> String {
    let schema = talmox_model::schema();
    format!("{schema:#}\n")
}
