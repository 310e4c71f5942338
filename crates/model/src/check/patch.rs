//! Patches: whether they can be one. What they do to a config is found out when it is rendered.

use std::collections::HashSet;

use talmox_yaml::{Node as Yaml, Value};

use crate::cluster::{Cluster, Node};
use crate::diagnostic::{Code, Diagnostic};
use crate::language::{Chain, Spanned};
use crate::load::parse_patch;
use crate::value::Patch;

pub(super) fn check(cluster: &Cluster, out: &mut Vec<Diagnostic>) {
    for patch in all_patches(cluster) {
        if let Err(problem) = parse_patch(&patch.value) {
            out.push(bad_patch(problem).at(patch.span));
        }
    }
}

pub(super) fn bad_patch(problem: String) -> Diagnostic {
    Diagnostic::error(Code::BadPatch, problem)
        .hint("a patch is a mapping as in a machine config, or a list of JSON6902 operations")
}

/// Every patch that stands in the cluster's files, each once.
pub(super) fn all_patches(cluster: &Cluster) -> Vec<&Spanned<Patch>> {
    let file = &cluster.file;
    let by_role = [&file.patches.all, &file.patches.controlplane, &file.patches.workers];
    let shared = [&file.machine, &file.roles.controlplane, &file.roles.workers];
    let classes = file.classes.entries.iter().map(|(_, class)| class);
    let nodes = cluster.nodes.iter().map(Node::settings);
    let settings = shared.into_iter().chain(classes).chain(nodes);
    let chains = by_role.into_iter().chain(settings.map(|settings| &settings.system.patches));
    let mut seen = HashSet::new();
    chains.flat_map(Chain::iter).filter(|patch| seen.insert(patch.span)).collect()
}

/// The text of a patch file, or of a block scalar.
pub(crate) fn patch_text(text: &str) -> Result<(), String> {
    let documents = talmox_yaml::read(text).map_err(|error| {
        let line = text[..error.span.start.min(text.len())].lines().count().max(1);
        format!("not YAML (line {line}): {error}")
    })?;
    if documents.iter().all(Yaml::is_null) {
        return Err("the patch is empty".to_owned());
    }
    patch_shape(&documents)
}

pub(crate) fn patch_shape(documents: &[Yaml]) -> Result<(), String> {
    for document in documents {
        match &document.value {
            Value::Map(_) => {}
            Value::Seq(seq) if documents.len() == 1 => {
                let is_operation = |item: &Yaml| {
                    item.as_map()
                        .is_some_and(|map| map.get("op").is_some() && map.get("path").is_some())
                };
                if !seq.items.iter().all(is_operation) {
                    return Err("a list, but not of operations with `op` and `path`".to_owned());
                }
            }
            Value::Scalar(_) if document.is_null() => {}
            _ => return Err(format!("{} is not a patch", document.describe())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_and_operations_are_patches() {
        for good in [
            "machine: {}\n",
            "machine: {}\n---\nkind: X\n",
            "- {op: add, path: /machine/x, value: 1}\n",
            "[{\"op\": \"remove\", \"path\": \"/a\"}]",
        ] {
            assert_eq!(patch_text(good), Ok(()), "{good}");
        }
        for bad in
            ["", "# nothing\n", "text", "- a\n- b\n", "a: [\n", "a: 1\n---\n- op: x\n  path: y\n"]
        {
            assert!(patch_text(bad).is_err(), "{bad}");
        }
    }
}
