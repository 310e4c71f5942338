//! Every path in ARCHITECTURE.md that starts at the root of the repository exists.

use std::path::Path;

use crate::Problems;

/// Folders at the root. A path that starts with another name is relative to the crate that its section is about.
const ROOTS: &[&str] = &["crates/", "docs/", "examples/", "fuzz/", "schema/", "tests/", "xtask/"];

pub(crate) fn check(root: &Path) -> Problems {
    match std::fs::read_to_string(root.join("ARCHITECTURE.md")) {
        Ok(text) => missing(&text, |path| root.join(path).exists()),
        Err(error) => vec![format!("ARCHITECTURE.md cannot be read: {error}")],
    }
}

fn missing(text: &str, exists: impl Fn(&str) -> bool) -> Problems {
    let quoted = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let paths = quoted.filter(|path| ROOTS.iter().any(|root| path.starts_with(root)));
    // A star stands for several files.
    let missing = paths.filter(|path| !path.contains('*') && !exists(path));
    missing.map(|path| format!("ARCHITECTURE.md names `{path}`, which does not exist")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_from_the_root_must_exist() {
        let text = "see `crates/yaml/src/lib.rs` and `crates/gone/src/lib.rs`, or\n`lib.rs`, `crates/lab-*` and `crates/yaml`";
        let problems = missing(text, |path| path.starts_with("crates/yaml"));
        assert_eq!(
            problems,
            ["ARCHITECTURE.md names `crates/gone/src/lib.rs`, which does not exist"]
        );
    }
}
