//! Check that planning does no I/O. It reads the dependency tree from `cargo metadata`: no crate in the tree may be able
//! to open a socket.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use crate::Problems;

/// Crates whose normal dependencies must not include any of [`IMPURE`].
const PURE: &[&str] = &["talmox-plan", "talmox-pve-types"];

/// Async runtimes, network stacks and API clients.
const IMPURE: &[&str] = &[
    "hyper",
    "hyper-util",
    "kube",
    "kube-client",
    "mio",
    "reqwest",
    "rustls",
    "socket2",
    "talmox-clock",
    "talmox-net",
    "talmox-pve",
    "talmox-talos-api",
    "tokio",
    "tonic",
];

/// Checks the dependency trees. `metadata` is the output of `cargo metadata` with all dependencies.
pub(crate) fn check(metadata: &Json) -> Problems {
    let names = names(metadata);
    let graph = normal_dependencies(metadata);
    let mut problems = vec![];
    for pure in PURE {
        let Some(start) = names.iter().find(|(_, name)| *name == pure).map(|(id, _)| *id) else {
            problems.push(format!("{pure} is not in the workspace"));
            continue;
        };
        for path in paths(&graph, start) {
            let path: Vec<&str> =
                path.iter().map(|id| names.get(id).copied().unwrap_or(id)).collect();
            if path.last().is_some_and(|last| IMPURE.contains(last)) {
                let path = path.join(" -> ");
                problems.push(format!("{pure} must not do I/O, but its dependencies can: {path}"));
            }
        }
    }
    problems
}

fn names(metadata: &Json) -> BTreeMap<&str, &str> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages.filter_map(|one| Some((one["id"].as_str()?, one["name"].as_str()?))).collect()
}

/// Dependencies of each package by package ID, without dev-dependencies and build dependencies.
fn normal_dependencies(metadata: &Json) -> BTreeMap<&str, Vec<&str>> {
    metadata["resolve"]["nodes"].as_array().into_iter().flatten().filter_map(dependencies).collect()
}

fn dependencies(node: &Json) -> Option<(&str, Vec<&str>)> {
    let is_normal = |dependency: &&Json| {
        let mut kinds = dependency["dep_kinds"].as_array().into_iter().flatten();
        kinds.any(|kind| kind["kind"].is_null())
    };
    let normal = node["deps"].as_array().into_iter().flatten().filter(is_normal);
    Some((node["id"].as_str()?, normal.filter_map(|one| one["pkg"].as_str()).collect()))
}

/// Shortest path to each package that `start` depends on, directly or indirectly.
fn paths<'a>(graph: &BTreeMap<&'a str, Vec<&'a str>>, start: &'a str) -> Vec<Vec<&'a str>> {
    let mut seen = BTreeSet::from([start]);
    let mut paths = vec![vec![start]];
    let mut next = 0;
    while next < paths.len() {
        let path = paths[next].clone();
        next += 1;
        let last = path.last().copied().unwrap_or(start);
        for dependency in graph.get(last).into_iter().flatten() {
            if seen.insert(dependency) {
                paths.push(path.iter().copied().chain([*dependency]).collect());
            }
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Workspace in which `talmox-plan` has one dependency of this kind. That dependency depends on tokio.
    fn workspace(kind: &Json) -> Json {
        let package = |name: &str| json!({"id": name, "name": name});
        let depends = |on: &str, kind: &Json| json!([{"pkg": on, "dep_kinds": [{"kind": kind}]}]);
        json!({
            "packages": [
                package("talmox-plan"), package("talmox-pve-types"), package("between"), package("tokio"),
            ],
            "resolve": {"nodes": [
                {"id": "talmox-plan", "deps": depends("between", kind)},
                {"id": "talmox-pve-types", "deps": []},
                {"id": "between", "deps": depends("tokio", &Json::Null)},
                {"id": "tokio", "deps": []},
            ]},
        })
    }

    #[test]
    fn an_indirect_runtime_dependency_is_reported() {
        let problem = "talmox-plan must not do I/O, but its dependencies can: talmox-plan -> between -> tokio";
        assert_eq!(check(&workspace(&Json::Null)), [problem]);
    }

    #[test]
    fn tests_and_build_scripts_may_use_a_runtime() {
        for kind in ["dev", "build"] {
            assert_eq!(check(&workspace(&json!(kind))), Vec::<String>::new(), "{kind}");
        }
    }

    #[test]
    fn a_missing_crate_is_reported() {
        let problems = check(&json!({"packages": [], "resolve": {"nodes": []}}));
        assert_eq!(problems.len(), PURE.len());
    }
}
