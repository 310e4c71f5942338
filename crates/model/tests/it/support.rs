//! Loading of inventories from texts.

use std::path::{Path, PathBuf};

use talmox_model::load::{ClusterFiles, Content, File, Parsed};
use talmox_model::{Inventory, Severity};

pub(crate) fn file(path: &str, text: &[u8]) -> File {
    File { path: PathBuf::from(path), content: Ok(text.to_vec()) }
}

/// Loads an inventory with a single file. A file that it refers to exists if its name starts with `good`.
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
    Parsed::new(clusters).check_with(|path, _| content(path))
}

/// Content of the files that tests refer to.
fn content(path: &Path) -> Content {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    match name.as_str() {
        name if name.starts_with("good") => Ok(b"machine: {}\n".to_vec()),
        "bad-syntax.yaml" => Ok(b"machine:\n  token: hunter2\n  b: [\n".to_vec()),
        "bad-text.yaml" => Ok(b"machine:\n  a: \xff\n".to_vec()),
        "bad-key.yaml" => Ok(b"# a comment\nmachin: {}\n".to_vec()),
        "overlay.yaml" => Ok(b"#cloud-config\npackages: [htop]\n".to_vec()),
        "overlay-syntax.yaml" => Ok(b"password: hunter2\npackages: [htop\n".to_vec()),
        "overlay.sh" => Ok(b"#!/bin/sh\necho hunter2\n".to_vec()),
        "overlay-list.yaml" => Ok(b"- htop\n".to_vec()),
        "overlay-two.yaml" => Ok(b"a: 1\n---\nb: 2\n".to_vec()),
        "overlay-empty.yaml" => Ok(b"#cloud-config\n".to_vec()),
        "operations.yaml" => Ok(b"- {op: add, path: /machine/x, value: 1}\n".to_vec()),
        name if name.starts_with("bad") => Ok(b"- not\n- a patch\n".to_vec()),
        _ => Err("no such file".to_owned()),
    }
}

/// Findings as `severity code file:line:column`, in display order.
pub(crate) fn findings(inventory: &Inventory) -> Vec<String> {
    let show = |diagnostic: &talmox_model::Diagnostic| {
        assert!(diagnostic.hint.is_some(), "without a hint: {diagnostic:?}");
        let severity = match diagnostic.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let label =
            diagnostic.primary.as_ref().unwrap_or_else(|| panic!("no place: {diagnostic:?}"));
        let place = inventory.sources.locate(label.span);
        assert!(inventory.sources.get(label.span.source).path().is_some(), "{diagnostic:?}");
        let place = place.strip_prefix("cluster.yaml:").unwrap_or(&place);
        format!("{severity} {} {place}", diagnostic.code.as_str())
    };
    inventory.diagnostics.iter().map(show).collect()
}
