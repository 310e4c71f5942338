//! Check that the paths in ARCHITECTURE.md and CONTRIBUTING.md exist. Without this check, a document could keep the old
//! path of a renamed file.

use std::collections::BTreeSet;
use std::path::Path;

use crate::Problems;

const DOCUMENTS: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md"];

/// Directories at the root of the repository. A path that starts with another name is relative to a crate.
const ROOTS: &[&str] = &["crates", "docs", "examples", "fuzz", "schema", "tests", "xtask"];

pub(crate) fn check(root: &Path) -> Problems {
    let mut paths = BTreeSet::new();
    for folder in ROOTS {
        collect(root, folder, &mut paths);
    }
    let mut problems = vec![];
    for document in DOCUMENTS {
        match std::fs::read_to_string(root.join(document)) {
            Ok(text) => problems.extend(missing(document, &text, &paths)),
            Err(error) => problems.push(format!("{document} cannot be read: {error}")),
        }
    }
    problems
}

/// Adds a directory and all files and directories below it, relative to the root of the repository.
fn collect(root: &Path, folder: &str, paths: &mut BTreeSet<String>) {
    paths.insert(folder.to_owned());
    for entry in std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{folder}/{name}");
        // Build output is not part of the repository.
        if entry.path().is_dir() && name != "target" {
            collect(root, &path, paths);
        } else {
            paths.insert(path);
        }
    }
}

fn missing(document: &str, text: &str, paths: &BTreeSet<String>) -> Problems {
    let missing = named_paths(text).filter(|path| !exists(path, paths));
    missing.map(|path| format!("{document} names `{path}`, which does not exist")).collect()
}

/// Paths in backticks: paths from the root of the repository, and Rust files. An anchor or arguments may follow a path.
fn named_paths(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let words = quoted.filter_map(|quoted| quoted.split([' ', '#']).next());
    words.filter(|word| is_from_root(word) || is_rust_file(word))
}

fn is_from_root(path: &str) -> bool {
    path.split_once('/').is_some_and(|(first, _)| ROOTS.contains(&first))
}

fn is_rust_file(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "rs")
}

/// Whether a path exists in the repository. If the path contains a star, only the directory before the star is checked.
fn exists(path: &str, paths: &BTreeSet<String>) -> bool {
    let path = match path.split_once('*') {
        None => path.trim_end_matches('/'),
        Some((start, _)) => start.rsplit_once('/').map_or("", |(folder, _)| folder),
    };
    if is_from_root(path) || ROOTS.contains(&path) {
        return paths.contains(path);
    }
    let ends_in_path =
        |full: &String| full.strip_suffix(path).is_some_and(|rest| rest.ends_with('/'));
    paths.iter().any(ends_in_path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paths in a document that do not exist.
    fn missing_of(text: &str) -> Problems {
        let all = ["crates", "crates/yaml", "crates/yaml/src", "crates/yaml/src/read.rs", "docs"];
        missing("A.md", text, &all.map(str::to_owned).into())
    }

    #[test]
    fn a_path_from_the_root_that_does_not_exist_is_reported() {
        let text =
            "`crates/yaml/src/lib.rs`, `crates/tree`,\n`docs/GONE.md#anchor` and `tests/run --all`";
        let names = |path: &str| format!("A.md names `{path}`, which does not exist");
        let expected = ["crates/yaml/src/lib.rs", "crates/tree", "docs/GONE.md", "tests/run"];
        assert_eq!(missing_of(text), expected.map(names));
    }

    #[test]
    fn a_rust_file_that_no_crate_has_is_reported() {
        for gone in ["tree.rs", "ead.rs", "yaml/read.rs", "tree/*.rs"] {
            let expected = format!("A.md names `{gone}`, which does not exist");
            assert_eq!(missing_of(&format!("see `{gone}`.")), [expected]);
        }
    }

    #[test]
    fn existing_paths_are_accepted() {
        let text = "`crates/yaml`, `crates/yaml/`, `crates/*/tests`, `crates/lab-*`, `read.rs`, `src/read.rs`, `src/*.rs`";
        assert_eq!(missing_of(text), Vec::<String>::new());
    }

    #[test]
    fn other_words_in_backticks_are_not_paths() {
        let text = "`cargo test`, `up/down`, `RunStep`, and crates/gone without backticks";
        assert_eq!(missing_of(text), Vec::<String>::new());
    }
}
