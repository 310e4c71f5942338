//! Check that the table of crates in ARCHITECTURE.md matches `cargo metadata`: the folder and name of each crate, and its
//! dependencies in the workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use serde_json::Value as Json;

use crate::Problems;

const HEADER: &str = "| crate | what it is | depends on |";

/// Crates of the workspace, by folder.
type Crates = BTreeMap<String, Crate>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Crate {
    name: String,
    /// Dependencies in the workspace, as folder names without `crates/`.
    normal: BTreeSet<String>,
    /// Dependencies that only tests and benches use.
    in_tests: BTreeSet<String>,
}

/// Compares the table with the workspace. `metadata` is the output of `cargo metadata` without external dependencies.
pub(crate) fn check(root: &Path, metadata: &Json) -> Problems {
    match std::fs::read_to_string(root.join("ARCHITECTURE.md")) {
        Ok(text) => compare(&table(&text), &workspace(metadata)),
        Err(error) => vec![format!("ARCHITECTURE.md cannot be read: {error}")],
    }
}

fn compare(table: &Crates, workspace: &Crates) -> Problems {
    let mut problems = vec![];
    for (folder, found) in workspace {
        match table.get(folder) {
            None => problems.push(format!("ARCHITECTURE.md: the table of crates lacks {folder}")),
            Some(row) if row != found => problems.push(format!(
                "ARCHITECTURE.md: the row of {folder} must be `{found}`, and is `{row}`"
            )),
            Some(_) => {}
        }
    }
    let gone = table.keys().filter(|folder| !workspace.contains_key(*folder));
    problems.extend(gone.map(|folder| {
        format!("ARCHITECTURE.md: the table of crates has {folder}, which is not in the workspace")
    }));
    problems
}

/// Rows of the table.
fn table(text: &str) -> Crates {
    let rows = text.lines().skip_while(|line| *line != HEADER).skip(2);
    rows.take_while(|line| line.starts_with('|')).filter_map(row).collect()
}

/// Parses a row such as "| `crates/x` (talmox-x) | … | a, b; c in tests |". A crate without a name in parentheses has the
/// name of its folder.
fn row(line: &str) -> Option<(String, Crate)> {
    let line = line.trim_end().trim_matches('|');
    let (crates, rest) = line.split_once('|')?;
    let uses = rest.rsplit('|').next()?;
    let folder = crates.split('`').nth(1)?.to_owned();
    let name = crates.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
    let name = name.map_or_else(|| short(&folder), |(name, _)| name.to_owned());
    let mut found = Crate { name, ..Crate::default() };
    for part in uses.split(';').map(str::trim) {
        let (names, set) = match part.strip_suffix(" in tests") {
            Some(names) => (names, &mut found.in_tests),
            None => (part, &mut found.normal),
        };
        let names = names.split(',').map(str::trim).filter(|name| !matches!(*name, "" | "–"));
        set.extend(names.map(str::to_owned));
    }
    Some((folder, found))
}

fn workspace(metadata: &Json) -> Crates {
    let root = metadata["workspace_root"].as_str().unwrap_or_default();
    let packages = || metadata["packages"].as_array().into_iter().flatten();
    let folder = |package: &Json| {
        let manifest = Path::new(package["manifest_path"].as_str()?).parent()?;
        let folder = manifest.strip_prefix(root).ok()?.to_str()?;
        Some((package["name"].as_str()?.to_owned(), folder.to_owned()))
    };
    let folders: BTreeMap<String, String> = packages().filter_map(folder).collect();
    let read = |package: &Json| {
        let name = package["name"].as_str()?;
        let mut found = Crate { name: name.to_owned(), ..Crate::default() };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let Some(folder) = dependency["name"].as_str().and_then(|name| folders.get(name))
            else {
                continue;
            };
            let is_test = dependency["kind"].as_str() == Some("dev");
            let set = if is_test { &mut found.in_tests } else { &mut found.normal };
            set.insert(short(folder));
        }
        let folder = folders.get(name)?;
        // Test dependencies may repeat a normal dependency or the crate itself, to enable more features. These are
        // removed.
        found.in_tests.remove(&short(folder));
        found.in_tests = &found.in_tests - &found.normal;
        Some((folder.clone(), found))
    };
    packages().filter_map(read).collect()
}

/// Name of a folder without its path, as in the column `depends on`.
fn short(folder: &str) -> String {
    folder.rsplit('/').next().unwrap_or_default().to_owned()
}

impl fmt::Display for Crate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |names: &BTreeSet<String>| {
            names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
        };
        write!(f, "({}) | {}", self.name, list(&self.normal))?;
        if !self.in_tests.is_empty() {
            write!(f, "; {} in tests", list(&self.in_tests))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const GOOD: &str = "text\n\n\
        | crate | what it is | depends on |\n|---|---|---|\n\
        | `crates/yaml` (talmox-yaml) | a tree | – |\n\
        | `crates/engine` (talmox-engine) | observes | yaml; lab in tests |\n\
        | `crates/lab` (talmox-lab) | a lab | yaml |\n\
        | `xtask` | chores | yaml |\n\
        \nmore text\n";

    fn metadata() -> Json {
        let package = |folder: &str, name: &str, dependencies: &[(&str, Option<&str>)]| {
            let dependencies =
                dependencies.iter().map(|(name, kind)| json!({"name": name, "kind": kind}));
            json!({
                "name": name,
                "manifest_path": format!("/root/{folder}/Cargo.toml"),
                "dependencies": dependencies.collect::<Vec<_>>(),
            })
        };
        json!({"workspace_root": "/root", "packages": [
            package("crates/yaml", "talmox-yaml", &[("thiserror", None), ("proptest", Some("dev"))]),
            package(
                "crates/engine",
                "talmox-engine",
                &[("talmox-yaml", None), ("talmox-lab", Some("dev")), ("talmox-yaml", Some("dev"))],
            ),
            package("crates/lab", "talmox-lab", &[("talmox-yaml", None), ("talmox-lab", Some("dev"))]),
            package("xtask", "xtask", &[("talmox-yaml", None)]),
        ]})
    }

    fn problems(text: &str) -> Problems {
        compare(&table(text), &workspace(&metadata()))
    }

    #[test]
    fn the_table_is_compared_with_the_workspace() {
        assert_eq!(problems(GOOD), Vec::<String>::new());
    }

    #[test]
    fn a_wrong_row_is_a_problem() {
        let wrong = "ARCHITECTURE.md: the row of crates/engine must be `(talmox-engine) | yaml; lab in tests`, and is ";
        for (good, bad, shown) in [
            ("yaml; lab in tests", "yaml, lab", "`(talmox-engine) | lab, yaml`"),
            ("yaml; lab in tests", "yaml", "`(talmox-engine) | yaml`"),
            ("(talmox-engine)", "(talmox-motor)", "`(talmox-motor) | yaml; lab in tests`"),
        ] {
            assert_eq!(problems(&GOOD.replace(good, bad)), [format!("{wrong}{shown}")]);
        }
    }

    #[test]
    fn missing_and_unknown_rows_are_problems() {
        let missing = "ARCHITECTURE.md: the table of crates lacks crates/tree";
        let unknown =
            "ARCHITECTURE.md: the table of crates has crates/yaml, which is not in the workspace";
        let text = metadata().to_string().replace("crates/yaml", "crates/tree");
        let moved: Json = serde_json::from_str(&text).unwrap();
        let found = compare(&table(GOOD), &workspace(&moved));
        assert!(
            found.contains(&missing.to_owned()) && found.contains(&unknown.to_owned()),
            "{found:?}"
        );
        assert_eq!(problems("no table").len(), 4);
    }
}
