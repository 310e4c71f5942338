//! Loads inventories from texts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use talmox_model::load::{ClusterFiles, Content, File, Parsed};
use talmox_model::{Inventory, Severity};

pub(crate) fn file(path: &str, text: &[u8]) -> File {
    File { path: PathBuf::from(path), content: Ok(text.to_vec()) }
}

/// A single-file inventory. Files it names are there if their name starts with `good`.
pub(crate) fn load(text: &str) -> Inventory {
    load_bytes(text.as_bytes())
}

pub(crate) fn load_bytes(bytes: &[u8]) -> Inventory {
    load_clusters(vec![ClusterFiles {
        default_name: "test".to_owned(),
        cluster: Some(file("cluster.yaml", bytes)),
        ..ClusterFiles::default()
    }])
}

pub(crate) fn load_clusters(clusters: Vec<ClusterFiles>) -> Inventory {
    let parsed = Parsed::new(clusters);
    let content = |path: &Path| -> Content {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        match name.as_str() {
            name if name.starts_with("good") => Ok(b"machine: {}\n".to_vec()),
            name if name.starts_with("bad") => Ok(b"- not\n- a patch\n".to_vec()),
            _ => Err("no such file".to_owned()),
        }
    };
    let references: BTreeMap<PathBuf, Content> = parsed
        .references()
        .into_iter()
        .map(|path| {
            let content = content(&path);
            (path, content)
        })
        .collect();
    parsed.check(&references)
}

/// Findings as `severity code file:line:column`, in the order they are shown.
pub(crate) fn findings(inventory: &Inventory) -> Vec<String> {
    let show = |diagnostic: &talmox_model::Diagnostic| {
        assert!(diagnostic.hint.is_some(), "without a hint: {diagnostic:?}");
        let severity = match diagnostic.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let place = diagnostic
            .primary
            .as_ref()
            .map_or_else(String::new, |label| inventory.sources.locate(label.span));
        let place = place.strip_prefix("cluster.yaml:").unwrap_or(&place);
        format!("{severity} {} {place}", diagnostic.code.as_str())
    };
    inventory.diagnostics.iter().map(show).collect()
}
