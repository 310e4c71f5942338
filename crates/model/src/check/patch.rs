//! Checks of the structure of patches. Rendering applies the patches and reports other errors.

use std::collections::HashSet;

use talmox_yaml::{Node as Yaml, Value};

use crate::cluster::{Cluster, Node};
use crate::diagnostic::{Code, Diagnostic, Findings};
use crate::language::{Chain, Spanned};
use crate::value::Patch;

/// First Talos version that rejects JSON6902 patches, because its machine configs consist of several documents.
const SEVERAL_DOCUMENTS: (u64, u64) = (1, 12);

/// Top-level keys of the first document of a machine config.
const SECTIONS: &[&str] = &["machine", "cluster", "debug", "persist", "version"];

/// Problem of a patch, with its position in the text of the patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadPatch {
    pub(super) problem: String,
    pub(super) hint: &'static str,
    pub(super) span: talmox_yaml::Span,
}

impl BadPatch {
    pub(super) fn diagnostic(self) -> Diagnostic {
        Diagnostic::error(Code::BadPatch, self.problem).hint(self.hint)
    }
}

const SHAPES: &str = "write the patch as a mapping with keys of a machine config, or as a list of JSON6902 operations";

pub(super) fn check(cluster: &Cluster, out: &mut Findings) {
    for patch in all_patches(cluster) {
        let checked = match &patch.value {
            Patch::File(_) => Ok(()),
            Patch::Inline(node) => shape(std::slice::from_ref(&**node), cluster),
            Patch::Text(text) => match talmox_yaml::read(text) {
                Ok(documents) => shape(&documents, cluster),
                Err(error) => {
                    let line = text[..error.span.start.min(text.len())].lines().count().max(1);
                    let problem =
                        format!("the patch is not YAML (line {line} of its text): {error}");
                    Err(BadPatch { problem, hint: SHAPES, span: error.span })
                }
            },
        };
        if let Err(bad) = checked {
            out.push(bad.diagnostic().at(patch.span));
        }
    }
}

/// All patches in the files of the cluster, each patch once.
pub(super) fn all_patches(cluster: &Cluster) -> Vec<&Spanned<Patch>> {
    let file = &cluster.file;
    let by_role = [&file.patches.all, &file.patches.controlplane, &file.patches.workers];
    let shared = [&file.machine, &file.roles.controlplane, &file.roles.workers];
    let classes = file.classes.entries.iter().map(|(_, class)| class);
    let nodes = cluster.nodes.iter().map(Node::settings);
    let settings = shared.into_iter().chain(classes).chain(nodes);
    let chains = by_role.into_iter().chain(settings.map(|settings| &settings.system.patches));
    // Nodes share the lists of layers with lower precedence, so each list is read only once.
    let mut seen_parts = HashSet::new();
    let parts = chains.flat_map(Chain::parts).filter(|part| seen_parts.insert(part.id()));
    let mut seen = HashSet::new();
    parts.flatten().filter(|patch| seen.insert(patch.span)).collect()
}

/// Checks that the documents have the structure of a patch.
pub(super) fn shape(documents: &[Yaml], cluster: &Cluster) -> Result<(), BadPatch> {
    let talos = cluster.file.talos_version.get();
    let bad = |node: &Yaml, problem: String, hint| Err(BadPatch { problem, hint, span: node.span });
    if documents.iter().all(Yaml::is_null) {
        let span = documents.first().map(|document| document.span).unwrap_or_default();
        return Err(BadPatch { problem: "the patch is empty".to_owned(), hint: SHAPES, span });
    }
    for document in documents {
        match &document.value {
            Value::Map(map) => {
                let is_document = map.get("kind").is_some();
                if !is_document && !SECTIONS.iter().any(|section| map.get(section).is_some()) {
                    return bad(
                        document,
                        "the patch has no key of a machine config".to_owned(),
                        "start it with `machine:` or `cluster:`, or with `apiVersion:` and `kind:`",
                    );
                }
            }
            Value::Seq(seq) if documents.len() == 1 => {
                let is_operation = |item: &&Yaml| {
                    item.as_map()
                        .is_none_or(|map| map.get("op").is_none() || map.get("path").is_none())
                };
                if let Some(item) = seq.items.iter().find(is_operation) {
                    let problem =
                        "an item of the patch is not an operation with `op` and `path`".to_owned();
                    return bad(item, problem, SHAPES);
                }
                if talos.is_some_and(|talos| talos.minor() >= SEVERAL_DOCUMENTS) {
                    return bad(
                        document,
                        "Talos v1.12 and newer do not accept JSON6902 patches".to_owned(),
                        "write the patch as a mapping: the config has several documents",
                    );
                }
            }
            Value::Scalar(_) if document.is_null() => {}
            _ => return bad(document, format!("{} is not a patch", document.describe()), SHAPES),
        }
    }
    Ok(())
}
