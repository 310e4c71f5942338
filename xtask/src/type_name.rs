//! Check that no two types of a crate have the same name. A search for a type must lead to one definition.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::Problems;

/// Keywords that start the definition of a type.
const KEYWORDS: [&str; 3] = ["struct", "enum", "type"];

pub(crate) fn check(root: &Path) -> Problems {
    let crates = fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
    let mut folders: Vec<_> = crates.map(|entry| entry.path()).collect();
    folders.push(root.join("xtask"));
    folders.sort();
    let mut problems = vec![];
    for folder in folders {
        let mut files = vec![];
        collect(root, &folder.join("src"), &mut files);
        problems.extend(duplicates(&files));
    }
    problems
}

/// Source files of a crate as pairs of path and text, without unit tests and generated code.
fn collect(root: &Path, folder: &Path, files: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if matches!(name.as_str(), "tests" | "tests.rs" | "generated") {
            continue;
        }
        if path.is_dir() {
            collect(root, &path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            files.push((shown, fs::read_to_string(&path).unwrap_or_default()));
        }
    }
    files.sort();
}

/// One problem for each name that more than one type of the files has.
fn duplicates(files: &[(String, String)]) -> Problems {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (path, text) in files {
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for name in code.lines().filter_map(defined_type) {
            places.entry(name).or_default().push(path);
        }
    }
    let repeated = places.into_iter().filter(|(_, places)| places.len() > 1);
    repeated
        .map(|(name, places)| format!("two types are called `{name}`: {}", places.join(", ")))
        .collect()
}

/// Name of the type that a line defines. Only definitions without indentation count: the others are inside functions,
/// traits and macros.
fn defined_type(line: &str) -> Option<&str> {
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.strip_prefix(' ')?,
        None => line,
    };
    let (keyword, rest) = line.split_once(' ')?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    Some(&rest[..end]).filter(|name| KEYWORDS.contains(&keyword) && !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> (String, String) {
        (path.to_owned(), text.to_owned())
    }

    #[test]
    fn definitions_of_types_are_found() {
        for (line, name) in [
            ("struct Plan {", Some("Plan")),
            ("pub struct Plan<'a> {", Some("Plan")),
            ("pub(crate) enum Plan {", Some("Plan")),
            ("pub(in crate::plan) struct Plan(u8);", Some("Plan")),
            ("type Plan = Vec<u8>;", Some("Plan")),
            ("    struct Plan;", None),
            ("pub trait Plan {", None),
            ("// struct Plan", None),
            ("pub use plan::Plan;", None),
            ("public struct", None),
        ] {
            assert_eq!(defined_type(line), name, "{line}");
        }
    }

    #[test]
    fn a_name_of_two_types_is_reported_with_both_files() {
        let one = file("a.rs", "pub struct Plan;\nenum Step {}\n");
        let other = file("b.rs", "type Plan = u8;\n\n#[cfg(test)]\nmod tests {}\nenum Step {}\n");
        assert_eq!(duplicates(&[one, other]), ["two types are called `Plan`: a.rs, b.rs"]);
    }
}
