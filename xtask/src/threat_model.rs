//! Check that every row of the threat model in SECURITY.md names existing tests.

use std::path::Path;

use crate::Problems;

pub(crate) fn check(root: &Path) -> Problems {
    let Ok(text) = std::fs::read_to_string(root.join("SECURITY.md")) else {
        return vec!["SECURITY.md cannot be read".to_owned()];
    };
    let mut sources = String::new();
    for folder in ["crates", "xtask"] {
        collect(&root.join(folder), &mut sources);
    }
    let rows: Vec<&str> = rows(&text).collect();
    if rows.is_empty() {
        return vec!["SECURITY.md has no threat model".to_owned()];
    }
    rows.into_iter().filter_map(|row| problem(row, &sources)).collect()
}

/// Rows of the table whose last column is named `Test`.
fn rows(text: &str) -> impl Iterator<Item = &str> {
    let table = text.lines().skip_while(|line| !line.trim_end().ends_with("| Test |"));
    table.skip(2).take_while(|line| line.starts_with('|'))
}

fn problem(row: &str, sources: &str) -> Option<String> {
    let last = row.trim_end().trim_end_matches('|').rsplit('|').next().unwrap_or_default();
    let tests: Vec<&str> = last.split('`').skip(1).step_by(2).collect();
    if tests.is_empty() {
        return Some(format!("SECURITY.md: this row names no test: {row}"));
    }
    let is_missing = |test: &&&str| !sources.contains(&format!("fn {test}("));
    let missing = tests.iter().find(is_missing)?;
    Some(format!("SECURITY.md names the test `{missing}`, which does not exist"))
}

fn collect(folder: &Path, sources: &mut String) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push_str(&std::fs::read_to_string(&path).unwrap_or_default());
        }
    }
}
