//! Inputs and errors of the derivation of machine configs: the patch and overlay files, and messages for configs that
//! cannot be derived.

use std::collections::BTreeMap;
use std::path::Path;

use talmox_model::value::Patch;
use talmox_model::{Cluster, Sources, Span};
use talmox_plan::desired::{DeriveError, needed_files};

use crate::boundary::Boundary;
use crate::choose::Chosen;
use crate::command_code::CommandCode;
use crate::error::CommandError;

/// Error for a config that cannot be derived, with the node, the patch and a hint.
pub(crate) fn derive_error(chosen: &Chosen, error: DeriveError) -> CommandError {
    let (cluster, inventory) = (chosen.cluster(), chosen.inventory());
    let (whose, error) = match error {
        DeriveError::Node { node, source } => (format!("cannot render `{node}`"), *source),
        error => (format!("cannot render the cluster `{}`", cluster.name), error),
    };
    let place = |span: Span| inventory.sources.locate(span);
    let check = format!("run `talmox check {}` to see everything that Talos rejects", cluster.name);
    match error {
        DeriveError::Missing { hint, .. } => {
            CommandError::failed(CommandCode::ConfigInvalid, whose).because(error).hint(hint)
        }
        DeriveError::Unresolved { span } | DeriveError::Overlay { span } => {
            CommandError::failed(CommandCode::ConfigInvalid, whose)
                .because(error)
                .hint(format!("see {}", place(span)))
        }
        DeriveError::Patch { span, ref source } => {
            let problem = without_values(&source.to_string());
            let patch = patch_name(cluster, span);
            CommandError::failed(
                CommandCode::ConfigInvalid,
                format!("{whose}: {error} ({patch}): {problem}"),
            )
            .hint(format!("see {}; {check}", place(span)))
        }
        DeriveError::Invalid(problems) => {
            let messages: Vec<String> = problems
                .iter()
                .map(|problem| match problem.patch {
                    Some(span) => format!("{} ({})", problem.message, patch_name(cluster, span)),
                    None => problem.message.clone(),
                })
                .collect();
            let mut places: Vec<String> =
                problems.iter().filter_map(|problem| problem.patch).map(place).collect();
            places.dedup();
            let see = if places.is_empty() {
                String::new()
            } else {
                format!("see {}; ", places.join(", "))
            };
            CommandError::failed(
                CommandCode::ConfigInvalid,
                format!("{whose}: Talos rejects the config: {}", messages.join("; ")),
            )
            .hint(format!(
                "{see}{check}, or `talmox config validate --mode cloud FILE` to check a single config"
            ))
        }
        error => CommandError::failed(CommandCode::ConfigInvalid, whose).because(error),
    }
}

/// Description of a patch in messages.
fn patch_name(cluster: &Cluster, span: Span) -> String {
    let mut all = cluster.nodes.iter().flat_map(|node| cluster.patches(node));
    match all.find(|patch| patch.span == span).map(|patch| &patch.value) {
        Some(Patch::File(path)) => format!("the patch {}", path.0),
        _ => "a patch of the inventory".to_owned(),
    }
}

/// Removes the values from an error of Talos. Such an error quotes lines of a patch, which may contain secrets.
pub(crate) fn without_values(text: &str) -> String {
    let mut lines = text.trim_end().lines();
    let mut out = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        let shown = match line.split_once(": ") {
            Some((key, _)) => format!("{key}: …"),
            None => line.to_owned(),
        };
        out.push('\n');
        out.push_str(&shown);
    }
    out
}

/// Texts of the patch and overlay files of an inventory, by the position of the file name in the inventory.
pub(crate) fn read_files(chosen: &Chosen) -> Result<BTreeMap<Span, String>, CommandError> {
    let (cluster, sources) = (chosen.cluster(), &chosen.inventory().sources);
    read_files_of(cluster, sources, chosen.folder(), chosen.boundary())
}

/// Texts of the patch and overlay files of any cluster. `folder` is the base of relative paths if the inventory has no
/// source file.
pub(crate) fn read_files_of(
    cluster: &Cluster,
    sources: &Sources,
    folder: &Path,
    boundary: &Boundary,
) -> Result<BTreeMap<Span, String>, CommandError> {
    let mut files = BTreeMap::new();
    for (span, name) in needed_files(cluster) {
        let source = sources.get(span.source).path();
        let path = source.and_then(Path::parent).unwrap_or(folder).join(name);
        files.insert(span, boundary.read_text(&path)?);
    }
    Ok(files)
}
