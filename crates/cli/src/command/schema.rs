//! `talmox schema`

use clap::Args;

use super::Outcome;
use crate::error::Exit;
use crate::printer::Printer;

/// Print the JSON schema of the inventory, for editors
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {}

pub(crate) fn run(printer: &Printer) -> Outcome {
    printer.result(&text())?;
    Ok(Exit::Fine)
}

/// The schema as it is checked in and as `init` writes it.
pub(crate) fn text() -> String {
    let schema = talmox_model::schema();
    format!("{schema:#}\n")
}
