//! `talmox addons update`

use clap::Args;

use super::selection::ChartArgs;
use super::vendor;
use crate::addons::AddonChart;
use crate::addons::lock_file::LockFile;
use crate::args::Global;
use crate::choose;
use crate::command::Outcome;
use crate::error::Exit;
use crate::printer::Printer;

/// Record the current digests of charts in addons.lock.yaml
///
/// Downloads each chart of a repository or registry in the version that the inventory names, and records its digest. A
/// stored chart is rendered again. To use another version, change `version:` in the inventory.
#[derive(Debug, Args)]
pub(super) struct UpdateArgs {
    #[command(flatten)]
    charts: ChartArgs,
}

pub(super) fn run(args: &UpdateArgs, global: &Global, printer: &Printer) -> Outcome {
    let chosen = choose::one(global, args.charts.cluster.as_deref(), printer)?;
    let charts = args.charts.charts(&chosen)?;
    let mut lock = LockFile::read(&chosen)?;
    let addons = &chosen.cluster().file.addons;
    lock.keep(|name| addons.values().any(|addon| addon.name.get().is_some_and(|own| own == name)));
    for chart in &charts {
        let before = lock.entry(chart.name, &chart.identity()).and_then(|one| one.sha256.clone());
        let Some(sha256) = chart.update(&mut lock)? else { continue };
        let what = match before {
            Some(before) if before == sha256 => "unchanged".to_owned(),
            Some(before) => format!("changed from {} to {}", short(&before), short(&sha256)),
            None => format!("recorded {}", short(&sha256)),
        };
        printer.say(&format!("{}: {what}", chart.name));
    }
    let stored: Vec<AddonChart<'_>> =
        charts.into_iter().filter(|chart| chart.is_vendored(&chosen)).collect();
    vendor::store(&chosen, &stored, &mut lock, printer)?;
    Ok(Exit::Fine)
}

/// Start of a digest, for messages.
fn short(sha256: &str) -> &str {
    sha256.get(..12).unwrap_or(sha256)
}
