//! Check that every row of the threat model in SECURITY.md names existing tests. CI must never retry these tests, because
//! a test that fails only sometimes shows a race in a protection.

use std::path::Path;

use crate::Problems;

const FILE: &str = "SECURITY.md";

pub(crate) fn check(root: &Path) -> Problems {
    let Ok(text) = std::fs::read_to_string(root.join(FILE)) else {
        return vec![format!("{FILE} cannot be read")];
    };
    let mut sources = vec![];
    for folder in ["crates", "xtask"] {
        collect(&root.join(folder), &mut sources);
    }
    let rows: Vec<&str> = rows(&text).collect();
    if rows.is_empty() {
        return vec![format!("{FILE} has no threat model")];
    }
    rows.into_iter().filter_map(|row| problem(row, &sources)).collect()
}

/// `cargo xtask retryable TEST…`: reports the failed tests that must not be retried, because the threat model names them.
pub(crate) fn check_retryable(root: &Path, failed: &[String]) -> Problems {
    match std::fs::read_to_string(root.join(FILE)) {
        Ok(text) => not_retryable(&text, failed),
        Err(error) => vec![format!("{FILE} cannot be read: {error}")],
    }
}

/// Failed tests that the threat model names. The test names contain their modules, as `cargo test` prints them.
fn not_retryable(text: &str, failed: &[String]) -> Problems {
    let protected: Vec<&str> = rows(text).flat_map(tests_of).collect();
    if protected.is_empty() {
        return vec![format!("{FILE} has no threat model")];
    }
    let is_protected =
        |test: &&String| test.rsplit("::").next().is_some_and(|name| protected.contains(&name));
    let message =
        |test: &String| format!("`{test}` is in the threat model: one pass on retry is not enough");
    failed.iter().filter(is_protected).map(message).collect()
}

/// Rows of the table whose last column is named `Test`.
fn rows(text: &str) -> impl Iterator<Item = &str> {
    let table = text.lines().skip_while(|line| !line.trim_end().ends_with("| Test |"));
    table.skip(2).take_while(|line| line.starts_with('|'))
}

/// Tests that a row names.
fn tests_of(row: &str) -> Vec<&str> {
    let last = row.trim_end().trim_end_matches('|').rsplit('|').next().unwrap_or_default();
    last.split('`').skip(1).step_by(2).collect()
}

fn problem(row: &str, sources: &[String]) -> Option<String> {
    let tests = tests_of(row);
    if tests.is_empty() {
        return Some(format!("{FILE}: this row names no test: {row}"));
    }
    let is_missing = |test: &&&str| !sources.iter().any(|source| has_test(source, test));
    let missing = tests.iter().find(is_missing)?;
    Some(format!("{FILE} names `{missing}`, which is not a test that runs"))
}

/// Whether a source file contains a test with this name that runs. Such a test is a function with a test attribute that
/// is not ignored and not in a comment.
fn has_test(source: &str, name: &str) -> bool {
    let lines = without_block_comments(source);
    let is_function = |line: &str| {
        let line = line.strip_prefix("pub ").unwrap_or(line);
        let line = line.strip_prefix("async ").unwrap_or(line);
        let rest = line.strip_prefix("fn ").and_then(|rest| rest.strip_prefix(name));
        rest.is_some_and(|rest| rest.starts_with('('))
    };
    let mut found = lines.iter().enumerate().filter(|(_, line)| is_function(line));
    found.any(|(at, _)| {
        let above = lines[..at].iter().rev();
        let attributes: Vec<&&str> =
            above.take_while(|line| line.starts_with("#[") || line.starts_with("//")).collect();
        let is_test = |line: &&&str| {
            line.starts_with("#[test]")
                || line.starts_with("#[tokio::test]")
                || line.starts_with("#[tokio::test(")
        };
        attributes.iter().any(is_test)
            && !attributes.iter().any(|line| line.starts_with("#[ignore"))
    })
}

/// Lines without indentation and without block comments. A comment counts only at the start of a line, because texts may
/// contain `/*` too.
fn without_block_comments(source: &str) -> Vec<&str> {
    let mut is_comment = false;
    let mut kept = vec![];
    for line in source.lines().map(str::trim) {
        if !is_comment && !line.starts_with("/*") {
            kept.push(line);
            continue;
        }
        is_comment = !line.contains("*/");
    }
    kept
}

fn collect(folder: &Path, sources: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(std::fs::read_to_string(&path).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
# Security

| Who | Test |
|---|---|
| A user | `one`, `two` |
| Another user | `three` |

| Key | Default |
";

    #[test]
    fn only_functions_with_the_attribute_of_a_test_are_tests() {
        for source in [
            "#[test]\nfn one() {",
            "    #[test]\n    fn one(text in \".*\") {",
            "#[tokio::test]\nasync fn one() {",
            "#[tokio::test(flavor = \"multi_thread\")]\n// Why.\n#[cfg(unix)]\nasync fn one() {",
            "/* old */\n#[test]\nfn one() {",
        ] {
            assert!(has_test(source, "one"), "{source}");
        }
        for source in [
            "fn one() {",
            "#[test]\nfn two() {}\n\nfn one() {",
            "#[test]\n// fn one() {",
            "// #[test]\nfn one() {",
            "/*\n#[test]\nfn one() {\n*/",
            "#[test]\n#[ignore]\nfn one() {",
            "#[test]\nfn one_more() {",
            "#[tokio::test_helper]\nfn one() {",
            "let text = \"#[test] fn one() {\";",
        ] {
            assert!(!has_test(source, "one"), "{source}");
        }
    }

    #[test]
    fn rows_without_a_test_are_problems() {
        let sources = ["#[test]\nfn one() {".to_owned(), "#[test]\nfn three() {".to_owned()];
        let found: Vec<String> = rows(TABLE).filter_map(|row| problem(row, &sources)).collect();
        assert_eq!(found, ["SECURITY.md names `two`, which is not a test that runs"]);
        let empty = problem("| A user | none |", &sources).unwrap();
        assert!(empty.starts_with("SECURITY.md: this row names no test"), "{empty}");
    }

    #[test]
    fn tests_of_the_threat_model_are_not_retried() {
        let failed = ["lock::two", "three", "lock::two_more", "other::four"].map(str::to_owned);
        assert_eq!(
            not_retryable(TABLE, &failed),
            [
                "`lock::two` is in the threat model: one pass on retry is not enough",
                "`three` is in the threat model: one pass on retry is not enough",
            ]
        );
        assert!(not_retryable(TABLE, &failed[2..]).is_empty());
        assert_eq!(not_retryable("", &failed), ["SECURITY.md has no threat model"]);
    }
}
