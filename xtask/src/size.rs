//! Check of the length of source files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Problems;

const WARN: usize = 500;
const FAIL: usize = 900;

pub(crate) fn check(root: &Path) -> Problems {
    let mut files = vec![];
    for folder in ["crates", "xtask"] {
        rust_files(&root.join(folder), &mut files);
    }
    let mut problems = vec![];
    for path in files {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let lines = lines_without_tests(&text);
        let shown = path.strip_prefix(root).unwrap_or(&path).display();
        if lines > FAIL {
            problems.push(format!("{shown} has {lines} lines; the limit is {FAIL}"));
        } else if lines > WARN {
            println!("xtask: {shown} has {lines} lines: consider splitting it");
        }
    }
    problems
}

/// Number of lines without the unit tests at the end of the file.
fn lines_without_tests(text: &str) -> usize {
    text.lines().take_while(|line| *line != "#[cfg(test)]").count()
}

fn rust_files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Integration tests and generated code have no limit.
        if path.is_dir() && !matches!(name.as_str(), "tests" | "generated" | "target") {
            rust_files(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            out.push(path);
        }
    }
    out.sort();
}
