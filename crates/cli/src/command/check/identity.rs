//! Clusters with one set of secrets: whoever copies an inventory copies its identity along, and nodes of both would be one
//! cluster's. Nothing is deciphered for it: what is the same sealed is the same.

use std::collections::BTreeMap;

use talmox_model::load::ClusterFiles;
use talmox_model::{Code, Diagnostic, Severity};

use crate::choose::secrets_beside;
use crate::disk;
use crate::secrets::TALOS;

/// What there is to say about secrets that two clusters share, one of which was asked for.
pub(super) fn shared_secrets(clusters: &[ClusterFiles]) -> Vec<Diagnostic> {
    let mut first: BTreeMap<String, &ClusterFiles> = BTreeMap::new();
    let mut found = vec![];
    for files in clusters {
        let Some(id) = sealed_id(files) else { continue };
        let Some(other) = first.get(&id) else {
            first.insert(id, files);
            continue;
        };
        if files.is_neighbour && other.is_neighbour {
            continue;
        }
        let mut names = [&other.default_name, &files.default_name];
        names.sort();
        let [one, two] = names;
        let message = format!(
            "`{one}` and `{two}` have the same secrets, so they are one cluster to their nodes and to Proxmox"
        );
        let hint = String::from(
            "if one is a copy of the other, give it its own: take its secrets file away, then `talmox secrets init` for it",
        );
        found.push(Diagnostic {
            severity: Severity::Warning,
            code: Code::SharedClash,
            message,
            primary: None,
            related: vec![],
            hint: Some(hint),
        });
    }
    found
}

/// The id of a cluster, as it stands in its secrets file.
fn sealed_id(files: &ClusterFiles) -> Option<String> {
    let path = secrets_beside(&files.cluster.as_ref()?.path);
    let text = disk::read_secret(&path).ok()??;
    let documents = talmox_yaml::read(text.expose()).ok()?;
    let mut node = documents.first()?;
    for key in [TALOS, "cluster", "id"] {
        node = node.as_map()?.get(key)?;
    }
    node.as_str().filter(|id| !id.is_empty()).map(str::to_owned)
}
