//! Check for import cycles between the files of a crate. A file in a cycle cannot be read, tested or moved without the
//! other files of the cycle.
//!
//! A file depends on each file whose items it imports. A re-export (`pub use`) is not an import: the check follows it to
//! the file that defines the item. Imports in unit tests are ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::Problems;

/// Directories of the crates that must not have import cycles.
const CRATES: &[&str] = &["engine", "plan", "pve-types"];

/// Path of a module in its crate. Empty for `lib.rs`.
type Module = Vec<String>;

pub(crate) fn check(root: &Path) -> Problems {
    let mut problems = vec![];
    for name in CRATES {
        let mut files = BTreeMap::new();
        read(&root.join("crates").join(name).join("src"), &[], &mut files);
        let sources = files.iter().map(|(module, text)| (module.clone(), Source::parse(text)));
        for cycle in import_cycles(&sources.collect()) {
            let names: Vec<String> = cycle.iter().map(|module| module.join("::")).collect();
            problems.push(format!("crates/{name} has an import cycle: {}", names.join(", ")));
        }
    }
    problems
}

fn read(folder: &Path, module: &[String], files: &mut BTreeMap<Module, String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_own = matches!(name.as_str(), "lib" | "main" | "mod");
        let child = || module.iter().cloned().chain((!is_own).then(|| name.clone())).collect();
        if path.is_dir() {
            let child: Module = child();
            read(&path, &child, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.insert(child(), fs::read_to_string(&path).unwrap_or_default());
        }
    }
}

/// Imports of a source file.
#[derive(Debug, Default)]
struct Source {
    /// Module paths that the code uses.
    used: Vec<Vec<String>>,
    /// Names in the module that stand for other paths, including re-exports.
    names: BTreeMap<String, Vec<String>>,
}

impl Source {
    fn parse(text: &str) -> Self {
        let mut source = Self::default();
        let (mut statement, mut children) = (String::new(), vec![]);
        for line in text.lines().take_while(|line| *line != "#[cfg(test)]") {
            let line = line.split("//").next().unwrap_or_default().trim();
            let (is_public, item) = without_visibility(line);
            if let Some(child) = item.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';')) {
                children.push(child.to_owned());
            } else if !statement.is_empty() || item.starts_with("use ") {
                if statement.is_empty() {
                    statement.push_str(if is_public { "pub " } else { "" });
                }
                statement.push_str(item);
                if line.ends_with(';') {
                    source.add(&statement);
                    statement.clear();
                }
            } else {
                source.used.extend(inline_paths(item, &children));
            }
        }
        source
    }

    /// Adds a statement such as `pub use a::{b, c::d};`.
    fn add(&mut self, statement: &str) {
        let is_public = statement.starts_with("pub ");
        let tree = statement.trim_start_matches("pub ").trim_start_matches("use ");
        for leaf in leaves(tree.trim_end_matches(';')) {
            let (path, alias) = leaf.split_once(" as ").unwrap_or((&leaf, ""));
            let mut path: Vec<String> =
                path.split("::").map(|part| part.trim().to_owned()).collect();
            if path.last().is_some_and(|last| last == "self") {
                path.pop();
            }
            let name = if alias.is_empty() { path.last().cloned() } else { Some(alias.to_owned()) };
            self.names.insert(name.unwrap_or_default(), path.clone());
            if !is_public {
                self.used.push(path);
            }
        }
    }
}

/// Splits the visibility off an item. Returns whether the item is visible outside of its module, and the rest of the
/// line.
fn without_visibility(line: &str) -> (bool, &str) {
    let Some(rest) = line.strip_prefix("pub") else { return (false, line) };
    let rest = match rest.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
        Some((_, rest)) => rest,
        None => rest,
    };
    rest.strip_prefix(' ').map_or((false, line), |item| (true, item))
}

/// Single paths in a use tree such as `a::{b, c::{d, e}}`.
fn leaves(tree: &str) -> Vec<String> {
    let Some((prefix, rest)) = tree.split_once('{') else { return vec![tree.trim().to_owned()] };
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let (mut depth, mut start, mut parts) = (0_u32, 0, vec![]);
    for (at, letter) in inner.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inner[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inner[start..]);
    let parts = parts.into_iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(leaves).map(|leaf| format!("{}{leaf}", prefix.trim())).collect()
}

/// Paths in a line of code that start with `crate`, `super` or a child module.
fn inline_paths(line: &str, children: &[String]) -> Vec<Vec<String>> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let paths = line.split(|letter: char| !is_part(letter)).filter(|word| word.contains("::"));
    let paths = paths.map(|path| path.split("::").map(str::to_owned).collect::<Vec<String>>());
    let is_own = |path: &Vec<String>| {
        matches!(path[0].as_str(), "crate" | "super") || children.contains(&path[0])
    };
    paths.filter(is_own).collect()
}

/// Groups of files that depend on each other in a cycle.
fn import_cycles(sources: &BTreeMap<Module, Source>) -> Vec<Vec<Module>> {
    let edges: BTreeMap<&Module, BTreeSet<Module>> = sources
        .iter()
        .map(|(module, source)| {
            let targets = source.used.iter().filter_map(|path| resolve(sources, module, path, 0));
            (module, targets.filter(|target| target != module).collect())
        })
        .collect();
    let reachable = |from: &Module| {
        let mut seen: BTreeSet<&Module> = BTreeSet::new();
        let mut open: Vec<&Module> = edges.get(from).into_iter().flatten().collect();
        while let Some(module) = open.pop() {
            if seen.insert(module) {
                open.extend(edges.get(module).into_iter().flatten());
            }
        }
        seen
    };
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        sources.keys().map(|module| (module, reachable(module))).collect();
    let mut found: BTreeSet<Vec<Module>> = BTreeSet::new();
    for (module, targets) in &reached {
        if targets.contains(module) {
            let is_in = |other: &&&Module| reached[**other].contains(module);
            found.insert(targets.iter().filter(is_in).map(|other| (*other).clone()).collect());
        }
    }
    found.into_iter().collect()
}

/// Module that defines the item that `path` names in `module`. `None` for an item of another crate.
fn resolve(
    sources: &BTreeMap<Module, Source>,
    module: &[String],
    path: &[String],
    depth: usize,
) -> Option<Module> {
    // The depth is limited, because names that refer to each other would recurse forever.
    if depth > 8 {
        return None;
    }
    let supers = path.iter().take_while(|part| *part == "super").count();
    let base = match path.first()?.as_str() {
        "crate" => &[],
        "super" => &module[..module.len().checked_sub(supers)?],
        "self" => module,
        child => {
            let child: Module = module.iter().cloned().chain([child.to_owned()]).collect();
            sources.get(&child).map(|_| module)?
        }
    };
    let skipped = match path[0].as_str() {
        "crate" | "self" => 1,
        _ => supers,
    };
    let full: Module = base.iter().chain(&path[skipped..]).cloned().collect();
    let length = (0..=full.len()).rev().find(|length| sources.contains_key(&full[..*length]))?;
    let (file, rest) = full.split_at(length);
    let meant = rest.first().and_then(|name| sources[file].names.get(name));
    match meant {
        Some(meant) => {
            let path: Vec<String> = meant.iter().chain(&rest[1..]).cloned().collect();
            resolve(sources, file, &path, depth + 1)
        }
        None => Some(file.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycles_of(files: &[(&str, &str)]) -> Vec<String> {
        let module = |path: &str| -> Module {
            path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()
        };
        let sources = files.iter().map(|(path, text)| (module(path), Source::parse(text)));
        let join = |cycle: Vec<Module>| {
            cycle.iter().map(|one| one.join("::")).collect::<Vec<_>>().join(" ")
        };
        import_cycles(&sources.collect()).into_iter().map(join).collect()
    }

    #[test]
    fn files_that_import_each_other_are_a_cycle() {
        let files = [
            ("", "mod a;\nmod b;\nmod c;\npub use a::A;"),
            ("a", "use super::b::{\n    B,\n    other,\n};\npub struct A;"),
            ("b", "fn x() -> crate::c::C {}"),
            ("c", "use crate::A;"),
        ];
        assert_eq!(cycles_of(&files), ["a b c"]);
    }

    #[test]
    fn a_parent_and_a_child_that_import_each_other_are_a_cycle() {
        let child = ("a::b", "use super::T;\nfn run() {}");
        let parent = "mod b;\npub struct T;\nfn go() { b::run() }";
        assert_eq!(cycles_of(&[("", "mod a;"), ("a", parent), child]), ["a a::b"]);
        let parent = "mod b;\nmod t;\npub use t::T;\nfn go() { b::run() }";
        let other = ("a::t", "pub struct T;");
        assert_eq!(cycles_of(&[("", "mod a;"), ("a", parent), child, other]), Vec::<String>::new());
    }

    #[test]
    fn tests_comments_and_visibility_are_ignored() {
        let files = [
            ("", "mod a;\nmod b;"),
            ("a", "// crate::b::B\npub(in crate::b) struct A;\n#[cfg(test)]\nuse crate::b::B;"),
            ("b", "use std::fmt;\nuse crate::a::A;"),
        ];
        assert_eq!(cycles_of(&files), Vec::<String>::new());
    }
}
