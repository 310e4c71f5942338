//! Which crate may use which: the picture in ARCHITECTURE.md, proven from `cargo metadata`.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value as Json;

use crate::{Problems, purity};

/// Each crate, and the crates of this workspace that it may depend on. Dependencies for tests are
/// held to the same rule, but for those in `IN_TESTS`.
const ALLOWED: &[(&str, &[&str])] = &[
    ("talmox-clock", &[]),
    ("talmox-tls", &[]),
    ("talmox-yaml", &[]),
    ("talmox-model", &["talmox-yaml"]),
    ("talmox-talos-config", &["talmox-yaml"]),
    ("talmox-pve-types", &[]),
    ("talmox-pve", &["talmox-clock", "talmox-pve-types", "talmox-tls"]),
    ("talmox-plan", &["talmox-model", "talmox-pve-types", "talmox-talos-config", "talmox-yaml"]),
    ("talmox-talos-api", &["talmox-clock", "talmox-talos-config", "talmox-tls", "talmox-yaml"]),
    ("talmox-lab-environment", &["talmox-clock", "talmox-tls"]),
    ("talmox-lab-kube", &["talmox-clock", "talmox-talos-config", "talmox-yaml"]),
    ("talmox-lab-pve", &["talmox-clock", "talmox-lab-environment", "talmox-talos-config"]),
    (
        "talmox-lab-talos",
        &[
            "talmox-clock",
            "talmox-lab-environment",
            "talmox-lab-kube",
            "talmox-talos-api",
            "talmox-talos-config",
            "talmox-yaml",
        ],
    ),
    (
        "talmox-lab",
        &[
            "talmox-clock",
            "talmox-lab-environment",
            "talmox-lab-kube",
            "talmox-lab-pve",
            "talmox-lab-talos",
            "talmox-yaml",
        ],
    ),
    (
        "talmox-engine",
        &[
            "talmox-clock",
            "talmox-model",
            "talmox-plan",
            "talmox-pve",
            "talmox-talos-api",
            "talmox-talos-config",
            "talmox-tls",
            "talmox-yaml",
        ],
    ),
    (
        "talmox",
        &[
            "talmox-clock",
            "talmox-engine",
            "talmox-lab",
            "talmox-model",
            "talmox-plan",
            "talmox-pve",
            "talmox-talos-api",
            "talmox-talos-config",
            "talmox-yaml",
        ],
    ),
    ("xtask", &["talmox-clock", "talmox-model"]),
];

/// What only the tests of a crate may depend on.
const IN_TESTS: &[(&str, &[&str])] = &[
    ("talmox-engine", &["talmox-lab"]),
    ("talmox-lab", &["talmox-pve", "talmox-talos-api", "talmox-talos-config"]),
];

/// Dependencies that would let a crate do what its layer must not.
const FORBIDDEN: &[(&str, &[&str], &str)] = &[
    ("talmox-yaml", &["tokio", "reqwest", "rustls"], "leaf crates are sync and do no I/O"),
    ("talmox-model", &["tokio", "reqwest", "rustls", "clap"], "leaf crates are sync and do no I/O"),
    (
        "talmox-talos-config",
        &["tokio", "reqwest", "rustls", "clap"],
        "leaf crates are sync and do no I/O",
    ),
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
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
            problems.push(format!("{name} has no place in the layering: add it in xtask"));
            continue;
        };
        let in_tests = IN_TESTS.iter().filter(|(of, _)| *of == name).flat_map(|(_, used)| *used);
        let forbidden = FORBIDDEN.iter().filter(|(of, ..)| *of == name);
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = dependency["name"].as_str().unwrap_or_default();
            let is_ours = dependency["path"].is_string();
            let is_test = dependency["kind"].as_str() == Some("dev");
            let is_for_tests = is_test && in_tests.clone().any(|test| *test == used);
            // A crate's tests may ask itself for its features.
            if is_ours && used != name && !allowed.contains(&used) && !is_for_tests {
                problems.push(format!("{name} must not depend on {used}"));
            }
            for (_, crates, why) in forbidden.clone() {
                if crates.contains(&used) {
                    problems.push(format!("{name} must not depend on {used}: {why}"));
                }
            }
        }
    }
    for folder in LEAVES {
        outside_world(&root.join("crates").join(folder).join("src"), root, &mut problems);
    }
    problems
}

/// The crates that are sync and do no I/O.
const LEAVES: &[&str] = &["yaml", "model", "talos-config", "pve-types", "plan"];

/// What the standard library has for reaching the outside world.
const OUTSIDE: &[&str] =
    &["std::fs", "std::net::Tcp", "std::net::Udp", "std::process", "std::env", "println!"];

/// Finds I/O in the sources of a leaf crate. Unit tests stand at the end of a file and may.
fn outside_world(folder: &Path, root: &Path, problems: &mut Problems) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            outside_world(&path, root, problems);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        for line in text.lines().take_while(|line| *line != "#[cfg(test)]") {
            let code = line.split("//").next().unwrap_or_default();
            if let Some(what) = OUTSIDE.iter().find(|what| code.contains(*what)) {
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
