//! Check for clusters that share a secrets bundle, as after a copy of an inventory folder. The nodes of these clusters
//! would belong to one cluster. No secret is decrypted: if the encrypted IDs of two clusters are equal, the IDs are
//! equal.

use std::collections::BTreeMap;

use talmox_model::load::ClusterFiles;
use talmox_model::{Code, Diagnostic, Severity};

use crate::choose::secrets_beside;
use crate::disk;
use crate::secrets::TALOS;

/// Findings about selected clusters that share their secrets with another cluster.
pub(super) fn shared_secrets(clusters: &[ClusterFiles]) -> Vec<Diagnostic> {
    let mut first: BTreeMap<String, &ClusterFiles> = BTreeMap::new();
    let mut found = vec![];
    for files in clusters {
        let Some(id) = encrypted_id(files) else { continue };
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
            "if one is a copy of the other, delete its secrets file and run `talmox secrets init` for it",
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

/// Encrypted ID of a cluster in its secrets file.
fn encrypted_id(files: &ClusterFiles) -> Option<String> {
    let path = secrets_beside(&files.cluster.as_ref()?.path);
    let text = disk::read_secret(&path).ok()??;
    let documents = talmox_yaml::read(text.expose()).ok()?;
    let mut node = documents.first()?;
    for key in [TALOS, "cluster", "id"] {
        node = node.as_map()?.get(key)?;
    }
    node.as_str().filter(|id| !id.is_empty()).map(str::to_owned)
}
