//! `talmox addons list`

use clap::Args;
use serde_json::{Value as Json, json};
use talmox_model::inventory::{Addon, ManifestSource};

use crate::addons::AddonChart;
use crate::addons::lock_file::LockFile;
use crate::args::{Format, Global};
use crate::choose::{self, Chosen};
use crate::command::Outcome;
use crate::error::Exit;
use crate::printer::Printer;
use crate::words;

/// List the add-ons of a cluster with their sources and versions
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Cluster [default: the only cluster of the inventory]
    #[arg(value_name = "CLUSTER")]
    cluster: Option<String>,
}

/// Add-on as the command shows it.
struct Listed {
    name: String,
    source: String,
    version: Option<String>,
    namespace: Option<String>,
    needs: Vec<String>,
    /// SHA-256 of the chart in the lock file.
    sha256: Option<String>,
    is_vendored: bool,
    /// Whether the chart comes from a repository or registry.
    is_remote: bool,
}

pub(super) fn run(args: &ListArgs, global: &Global, printer: &Printer) -> Outcome {
    let chosen = choose::one(global, args.cluster.as_deref(), printer)?;
    let lock = LockFile::read(&chosen)?;
    let addons = chosen.cluster().file.addons.values();
    let all: Vec<Listed> = addons.map(|addon| listed(addon, &chosen, &lock)).collect();
    if printer.format == Format::Json {
        let addons: Vec<Json> = all.iter().map(to_json).collect();
        let result = json!({"cluster": chosen.cluster().name, "addons": addons});
        printer.result(&format!("{result:#}\n"))?;
        return Ok(Exit::Fine);
    }
    if all.is_empty() {
        printer.result(&format!("{} has no add-ons.\n", chosen.cluster().name))?;
        return Ok(Exit::Fine);
    }
    let headings = ["NAME", "SOURCE", "VERSION", "NAMESPACE", "NEEDS", "STATE"].map(str::to_owned);
    let rows: Vec<[String; 6]> = std::iter::once(headings).chain(all.iter().map(row)).collect();
    printer.result(&words::aligned(&rows))?;
    Ok(Exit::Fine)
}

fn listed(addon: &Addon, chosen: &Chosen, lock: &LockFile) -> Listed {
    let chart = AddonChart::of(addon);
    let entry = chart.as_ref().and_then(|chart| lock.entry(chart.name, &chart.identity()));
    Listed {
        name: addon.name.get().cloned().unwrap_or_default(),
        source: source(addon),
        version: chart.as_ref().and_then(AddonChart::version).map(str::to_owned),
        namespace: addon.target_namespace().map(str::to_owned),
        needs: addon.needs.values().cloned().collect(),
        sha256: entry.and_then(|entry| entry.sha256.clone()),
        is_vendored: chart.as_ref().is_some_and(|chart| chart.is_vendored(chosen)),
        is_remote: chart.is_some_and(|chart| chart.version().is_some()),
    }
}

/// Source of an add-on in a few words.
fn source(addon: &Addon) -> String {
    if let Some(name) = addon.builtin.get() {
        return format!("builtin {name}");
    }
    if let Some(chart) = addon.chart.get() {
        return format!("chart {}", chart.as_str());
    }
    if let Some(url) = addon.url.get() {
        return url.shown();
    }
    let items = addon.manifests.values().map(|item| match item {
        ManifestSource::Path(path) => path.0.clone(),
        ManifestSource::Entry(entry) => match (entry.url.get(), entry.kustomize.get()) {
            (Some(url), _) => url.shown(),
            (None, Some(folder)) => format!("kustomize {}", folder.0),
            (None, None) => String::new(),
        },
    });
    items.collect::<Vec<_>>().join(", ")
}

fn state(listed: &Listed) -> &'static str {
    match (listed.is_vendored, listed.is_remote, listed.sha256.is_some()) {
        (true, _, _) => "vendored",
        (false, true, true) => "locked",
        (false, true, false) => "not locked",
        (false, false, _) => "-",
    }
}

fn row(listed: &Listed) -> [String; 6] {
    let or_dash = |text: Option<&String>| text.map_or("-", String::as_str).to_owned();
    let needs = Some(listed.needs.join(", ")).filter(|needs| !needs.is_empty());
    [
        listed.name.clone(),
        listed.source.clone(),
        or_dash(listed.version.as_ref()),
        or_dash(listed.namespace.as_ref()),
        or_dash(needs.as_ref()),
        state(listed).to_owned(),
    ]
}

fn to_json(listed: &Listed) -> Json {
    json!({
        "name": listed.name,
        "source": listed.source,
        "version": listed.version,
        "namespace": listed.namespace,
        "needs": listed.needs,
        "sha256": listed.sha256,
        "vendored": listed.is_vendored,
    })
}
