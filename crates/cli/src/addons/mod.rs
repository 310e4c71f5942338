//! Add-ons whose manifests a program makes: charts with Helm, kustomize folders with kustomize or kubectl.
//!
//! The code is part of this crate because it runs programs, reads the environment and writes files beside the inventory. The
//! results are manifests, so planning and execution know neither charts nor kustomize.

mod chart;
mod chart_file;
mod helm;
mod kustomize;
pub(crate) mod lock_file;
mod objects;
mod program;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use talmox_model::inventory::{Addon, ManifestSource};
use talmox_model::{Inventory, Span};
use talmox_plan::desired::{ManifestFile, SourceTexts};
use talmox_plan::manifest::read_manifests;
use talmox_talos_config::secret::SecretText;

use crate::choose::Chosen;
use crate::error::CommandError;
use crate::session::manifests;

pub(crate) use chart::{AddonChart, SecretAt, charts};
use helm::Helm;
use lock_file::LockFile;

/// Whether a command runs programs to make manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Programs {
    Run,
    /// For commands that do not apply add-ons: they need no Helm.
    Skip,
}

/// Adds the manifests of all charts and kustomize folders to `texts`. A chart that cannot be rendered is added as an error,
/// which the plan reports. The key is the position of the chart or folder in the inventory. A command that runs no programs gets
/// only the stored charts.
pub(crate) fn render(
    chosen: &Chosen,
    texts: &mut BTreeMap<Span, SourceTexts>,
    lock: &mut LockFile,
    secret_at: SecretAt<'_>,
    programs: Programs,
) {
    let addons: Vec<&Addon> = chosen.cluster().file.addons.values().collect();
    let mut defined: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for addon in in_order(&addons) {
        if let Some(chart) = AddonChart::of(addon)
            && (programs == Programs::Run || chart.is_vendored(chosen))
        {
            let needed = needed_versions(addon, &addons, &defined);
            let made = chart_texts(&chart, chosen, lock, secret_at, &needed);
            texts.insert(chart.span, made.map_err(|error| reason(&error)));
        }
        for item in addon.manifests.iter() {
            let ManifestSource::Entry(entry) = &item.value else { continue };
            let Some(folder) = entry.kustomize.spanned() else { continue };
            if programs == Programs::Run {
                let made = kustomize_texts(chosen, folder.span, &folder.value.0);
                texts.insert(folder.span, made.map_err(|error| reason(&error)));
            }
        }
        let name = addon.name.get().map_or("", String::as_str);
        defined.insert(name, defined_versions(addon, texts));
    }
}

/// Renders these charts, and returns the path and the text of their stored objects. The lock has their digests afterwards.
pub(crate) fn vendor(
    chosen: &Chosen,
    charts: &[AddonChart<'_>],
    lock: &mut LockFile,
) -> Result<Vec<(PathBuf, String)>, CommandError> {
    let addons: Vec<&Addon> = chosen.cluster().file.addons.values().collect();
    let mut texts = manifests::read(chosen)?;
    let mut defined: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut stored = vec![];
    for addon in in_order(&addons) {
        let name = addon.name.get().map_or("", String::as_str);
        if let Some(chart) = AddonChart::of(addon) {
            let needed = needed_versions(addon, &addons, &defined);
            let is_needed = || charts.iter().any(|one| needs(one.addon, name, &addons));
            let text = if charts.iter().any(|one| one.name == name) {
                let text = chart.stored(chosen, lock, &needed)?;
                stored.push((chart.vendored_path(chosen), text.clone()));
                Some(text)
            } else if is_needed() && chart.secrets().is_empty() {
                let objects = chart.render(chosen, lock, &|_| None, &needed)?;
                Some(objects::as_json(&objects))
            } else {
                None
            };
            let file = |text: String| ManifestFile { origin: chart.label(), text: text.into() };
            texts.insert(chart.span, Ok(text.map(file).into_iter().collect()));
        }
        defined.insert(name, defined_versions(addon, &texts));
    }
    Ok(stored)
}

/// Add-ons of all clusters whose charts are not stored, although Helm is not installed. One line for each.
pub(crate) fn without_helm(inventory: &Inventory) -> Vec<String> {
    let mut lines = vec![];
    for cluster in &inventory.clusters {
        let path = |span: Span| inventory.sources.get(span.source).path();
        let Some(file) = cluster.file.span.and_then(path) else { continue };
        for chart in cluster.file.addons.values().filter_map(AddonChart::of) {
            let is_stored = chart.vendored_beside(file).symlink_metadata().is_ok();
            if !is_stored && let Err(error) = Helm::find(&format!("add-on {}", chart.name)) {
                lines.push(reason(&error));
            }
        }
    }
    lines
}

/// Error and hint in one line, for the plan.
fn reason(error: &CommandError) -> String {
    match &error.hint {
        Some(hint) => format!("{}; {hint}", error.chain()),
        None => error.chain(),
    }
}

fn chart_texts(
    chart: &AddonChart<'_>,
    chosen: &Chosen,
    lock: &mut LockFile,
    secret_at: SecretAt<'_>,
    api_versions: &[String],
) -> Result<Vec<ManifestFile>, CommandError> {
    if chart.is_vendored(chosen) {
        return chart.vendored(chosen, lock).map(|file| vec![file]);
    }
    let rendered = chart.render(chosen, lock, secret_at, api_versions)?;
    let text = objects::as_json(&rendered).into();
    let origin = chart.label();
    Ok(vec![ManifestFile { origin, text }])
}

fn kustomize_texts(
    chosen: &Chosen,
    span: Span,
    folder: &str,
) -> Result<Vec<ManifestFile>, CommandError> {
    let path = chosen.path_at(span, folder);
    // Reads every file of the folder, so that a link to a private file is an error.
    chart_file::digest(&path, chosen.boundary())?;
    let path = std::path::absolute(&path).unwrap_or(path);
    let text = kustomize::build(&path, &format!("kustomize folder {folder}"))?;
    Ok(vec![ManifestFile { origin: format!("kustomize folder {folder}"), text: text.into() }])
}

/// Add-ons in an order in which each one follows those that it needs. The inventory has no cycles.
fn in_order<'a>(addons: &[&'a Addon]) -> Vec<&'a Addon> {
    let mut ordered: Vec<&Addon> = vec![];
    let mut left = addons.to_vec();
    while !left.is_empty() {
        let at = {
            let names: BTreeSet<&str> =
                left.iter().filter_map(|addon| addon.name.get()).map(String::as_str).collect();
            let is_waiting = |need: &String| names.contains(need.as_str());
            let is_next = |addon: &&Addon| !addon.needs.values().any(is_waiting);
            left.iter().position(is_next).unwrap_or_default()
        };
        ordered.push(left.remove(at));
    }
    ordered
}

/// API versions that the add-ons define that this one needs, directly or through others. Helm takes them for versions of the
/// cluster, so a chart can use them.
fn needed_versions(
    addon: &Addon,
    addons: &[&Addon],
    defined: &BTreeMap<&str, Vec<String>>,
) -> Vec<String> {
    let needed = all_needs(addon, addons);
    let versions = needed.iter().filter_map(|name| defined.get(name)).flatten();
    let versions: BTreeSet<&String> = versions.collect();
    versions.into_iter().cloned().collect()
}

/// Whether an add-on needs the one with this name, directly or through others.
fn needs(addon: &Addon, name: &str, addons: &[&Addon]) -> bool {
    all_needs(addon, addons).contains(&name)
}

/// Names of the add-ons that an add-on needs, directly or through others.
fn all_needs<'a>(addon: &'a Addon, addons: &[&'a Addon]) -> Vec<&'a str> {
    let mut needed: Vec<&str> = addon.needs.values().map(String::as_str).collect();
    let mut at = 0;
    while let Some(name) = needed.get(at).copied() {
        let is_it = |other: &&&Addon| other.name.get().is_some_and(|known| known == name);
        let further = addons.iter().find(is_it).map(|other| other.needs.values());
        for further in further.into_iter().flatten() {
            if !needed.contains(&further.as_str()) {
                needed.push(further);
            }
        }
        at += 1;
    }
    needed
}

/// API versions that the CustomResourceDefinitions of an add-on define.
fn defined_versions(addon: &Addon, texts: &BTreeMap<Span, SourceTexts>) -> Vec<String> {
    let chart = addon.chart_origin().map(|(span, _)| span);
    let items = addon.manifests.iter().map(|item| match &item.value {
        ManifestSource::Path(_) => Some(item.span),
        ManifestSource::Entry(entry) => entry.kustomize.span(),
    });
    let spans = items.chain([chart]).flatten();
    let files = spans.filter_map(|span| texts.get(&span)?.as_ref().ok()).flatten();
    let objects = files.flat_map(|file| {
        let text = file.text.text().map_or("", SecretText::expose);
        // Texts without a definition are not read a second time, because manifests can be large.
        if !text.contains("CustomResourceDefinition") {
            return vec![];
        }
        read_manifests(&file.origin, text).unwrap_or_default()
    });
    objects.flat_map(|object| object.defined_versions()).collect()
}

#[cfg(test)]
mod tests {
    use talmox_model::load::{ClusterFiles, File, Parsed};

    use super::*;

    fn inventory(addons: &str) -> Inventory {
        let text = format!("addons: [{addons}]\n");
        let file = File { path: PathBuf::from("cluster.yaml"), content: Ok(text.into_bytes()) };
        let files = ClusterFiles { cluster: Some(file), ..ClusterFiles::default() };
        Parsed::new(vec![files]).check(&BTreeMap::new())
    }

    #[test]
    fn add_ons_follow_those_that_they_need() {
        let inventory = inventory(
            "{name: c, files: [x], needs: [b]}, {name: a, files: [x]}, {name: b, files: [x], needs: [a]}",
        );
        let addons: Vec<&Addon> = inventory.clusters[0].file.addons.values().collect();
        let names: Vec<&String> =
            in_order(&addons).iter().filter_map(|addon| addon.name.get()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        let defined = BTreeMap::from([
            ("a", vec!["a.example/v1".to_owned()]),
            ("c", vec!["c.example/v1".to_owned()]),
        ]);
        assert_eq!(needed_versions(addons[0], &addons, &defined), ["a.example/v1"]);
        assert!(needed_versions(addons[1], &addons, &defined).is_empty());
    }
}
