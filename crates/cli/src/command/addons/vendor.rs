//! `talmox addons vendor`

use std::path::Path;

use clap::Args;
use talmox_talos_config::secret::SecretText;

use super::selection::ChartArgs;
use crate::addons::lock_file::LockFile;
use crate::addons::{self, AddonChart};
use crate::args::Global;
use crate::choose::{self, Chosen};
use crate::command::Outcome;
use crate::error::{CommandError, Exit};
use crate::new_file::{NewFile, write_all};
use crate::printer::Printer;

/// Store the rendered objects of charts beside the inventory
///
/// Renders each chart with Helm, and writes its objects to `addons/NAME.yaml` beside the inventory and their digest to
/// `addons.lock.yaml`. A stored chart needs neither Helm nor a network. Commit both files. A chart whose values refer to
/// secrets cannot be stored.
#[derive(Debug, Args)]
pub(super) struct VendorArgs {
    #[command(flatten)]
    charts: ChartArgs,
}

pub(super) fn run(args: &VendorArgs, global: &Global, printer: &Printer) -> Outcome {
    let chosen = choose::one(global, args.charts.cluster.as_deref(), printer)?;
    let charts = args.charts.charts(&chosen)?;
    let mut lock = LockFile::read(&chosen)?;
    store(&chosen, &charts, &mut lock, printer)?;
    Ok(Exit::Fine)
}

/// Renders charts, and writes their objects and the lock file. Nothing is written if a chart cannot be rendered.
pub(super) fn store(
    chosen: &Chosen,
    charts: &[AddonChart<'_>],
    lock: &mut LockFile,
    printer: &Printer,
) -> Result<(), CommandError> {
    let texts = addons::vendor(chosen, charts, lock)?;
    let mut files = vec![];
    for (path, text) in texts {
        // A link would let the author of the inventory choose the file that is overwritten.
        chosen.refuse_outside(path.parent().unwrap_or(Path::new(".")))?;
        chosen.refuse_outside(&path)?;
        files.push(NewFile { path, text: SecretText::new(text), is_secret: false });
    }
    write_all(&files)?;
    for file in &files {
        printer.say(&format!("wrote {}", file.path.display()));
    }
    if let Some(path) = lock.save()? {
        printer.say(&format!("wrote {}", path.display()));
    }
    Ok(())
}
