//! Check of the allowed dependencies between the crates with `cargo metadata`. ARCHITECTURE.md shows the allowed
//! dependencies.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value as Json;

use crate::{Problems, crate_table, purity};

/// Crates of the engine, the inventory and planning.
const INVENTORY: &[&str] = &["talmox-engine", "talmox-model", "talmox-plan"];

/// Forbidden dependencies of each crate, with the reason.
const FORBIDDEN: &[(&str, &[&str], &str)] = &[
    ("talmox-values", &["tokio", "reqwest", "rustls"], "leaf crates are sync and do no I/O"),
    ("talmox-yaml", &["tokio", "reqwest", "rustls"], "leaf crates are sync and do no I/O"),
    ("talmox-model", &["tokio", "reqwest", "rustls", "clap"], "leaf crates are sync and do no I/O"),
    (
        "talmox-talos-config",
        &["tokio", "reqwest", "rustls", "clap"],
        "leaf crates are sync and do no I/O",
    ),
    ("talmox-lab", INVENTORY, "the lab knows neither the engine nor the inventory"),
    ("talmox-lab-environment", INVENTORY, "the lab knows neither the engine nor the inventory"),
    ("talmox-lab-kube", INVENTORY, "the lab knows neither the engine nor the inventory"),
    ("talmox-lab-pve", INVENTORY, "the lab knows neither the engine nor the inventory"),
    ("talmox-lab-talos", INVENTORY, "the lab knows neither the engine nor the inventory"),
    ("talmox-pve", &["clap", "annotate-snippets"], "only the cli talks to people"),
    ("talmox-talos-api", &["clap", "annotate-snippets"], "only the cli talks to people"),
    ("talmox-engine", &["clap", "annotate-snippets"], "only the cli talks to people"),
];

pub(crate) fn check(root: &Path) -> Problems {
    let (metadata, whole) = match (metadata(root, &["--no-deps"]), metadata(root, &[])) {
        (Ok(metadata), Ok(whole)) => (metadata, whole),
        (Err(problem), _) | (_, Err(problem)) => return vec![problem],
    };
    let mut problems = purity::check(&whole);
    problems.extend(crate_table::check(root, &metadata));
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let forbidden = FORBIDDEN.iter().filter(|(of, ..)| *of == name);
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = dependency["name"].as_str().unwrap_or_default();
            for (_, crates, why) in forbidden.clone() {
                if crates.contains(&used) {
                    problems.push(format!("{name} must not depend on {used}: {why}"));
                }
            }
        }
    }
    for folder in LEAF_CRATES {
        check_io(&root.join("crates").join(folder).join("src"), root, &mut problems);
    }
    problems
}

/// Crates that are sync and do no I/O.
const LEAF_CRATES: &[&str] = &["values", "yaml", "model", "talos-config", "pve-types", "plan"];

/// Parts of the standard library that do I/O.
const IO_MODULES: &[&str] =
    &["std::fs", "std::net::Tcp", "std::net::Udp", "std::process", "std::env", "println!"];

/// Reports I/O in the sources of a leaf crate. Unit tests at the end of a file may do I/O.
fn check_io(folder: &Path, root: &Path, problems: &mut Problems) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            check_io(&path, root, problems);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        for line in text.lines().take_while(|line| *line != "#[cfg(test)]") {
            let code = line.split("//").next().unwrap_or_default();
            if let Some(what) = IO_MODULES.iter().find(|what| code.contains(*what)) {
                let shown = path.strip_prefix(root).unwrap_or(&path).display();
                problems.push(format!("{shown} uses {what}: leaf crates do no I/O"));
            }
        }
    }
}

fn metadata(root: &Path, options: &[&str]) -> Result<Json, String> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(options)
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot run cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}
