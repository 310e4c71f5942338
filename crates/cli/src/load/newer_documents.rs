//! Check for patches with documents that the Talos version of the cluster does not support. The nodes would reject the
//! whole config.

use std::collections::BTreeSet;
use std::path::Path;

use talmox_model::value::Patch;
use talmox_model::{Cluster, Code, Diagnostic, Inventory, Label, Node, Severity, Sources, Spanned};
use talmox_talos_config::contract::Contract;
use talmox_talos_config::lint::lint_kinds;
use talmox_yaml::emit;

use crate::boundary::Boundary;

const HINT: &str = "increase `talos_version`, or remove the document from the patch";

/// Adds findings for documents of later Talos releases.
pub(super) fn refuse_newer_documents(inventory: &mut Inventory, boundary: &Boundary) {
    let readable = inventory.clusters.iter().filter(|cluster| cluster.is_readable());
    let found: Vec<_> =
        readable.flat_map(|cluster| in_cluster(cluster, &inventory.sources, boundary)).collect();
    for diagnostic in found {
        // A patch in defaults.yaml has the same finding for every cluster.
        if !inventory.diagnostics.contains(&diagnostic) {
            inventory.diagnostics.push(diagnostic);
        }
    }
    inventory.diagnostics.sort_by_key(|found| found.primary.as_ref().map(|label| label.span));
}

fn in_cluster(cluster: &Cluster, sources: &Sources, boundary: &Boundary) -> Vec<Diagnostic> {
    let version = cluster.file.talos_version.get().map(ToString::to_string);
    let Some(talos) = version.and_then(|version| version.parse::<Contract>().ok()) else {
        return vec![];
    };
    let nodes = cluster.nodes.iter().filter(|node| node.is_talos());
    let mut seen = BTreeSet::new();
    let patches = nodes.flat_map(|node: &Node| cluster.patches(node));
    patches
        .filter(|patch| seen.insert(patch.span))
        .filter_map(|patch| Some((patch.span, text(patch, sources, boundary)?)))
        .flat_map(|(span, text)| {
            lint_kinds(&text, talos).into_iter().map(move |lint| Diagnostic {
                severity: Severity::Error,
                code: Code::BadPatch,
                message: lint.message,
                primary: Some(Label { span, text: String::new() }),
                related: vec![],
                hint: Some(HINT.to_owned()),
            })
        })
        .collect()
}

/// Text of a patch. `None` if its file cannot be read, because another check reports that.
fn text(patch: &Spanned<Patch>, sources: &Sources, boundary: &Boundary) -> Option<String> {
    match &patch.value {
        Patch::File(name) => {
            let folder = sources.get(patch.span.source).path().and_then(Path::parent)?;
            String::from_utf8(boundary.read(&folder.join(&name.0)).ok()?).ok()
        }
        Patch::Inline(tree) => Some(emit(tree, 4)),
        Patch::Text(text) => Some(text.clone()),
    }
}
