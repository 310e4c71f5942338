//! Tests of the schema that need no external data.

mod error_text;
mod property_string;
mod random_text;
mod route;

use std::io::Write;
use std::path::PathBuf;

/// Folder with recorded data, from an environment variable. In CI, the variable must be set.
#[expect(clippy::disallowed_methods, reason = "test data is located by an environment variable")]
pub(super) fn folder(variable: &str) -> Option<PathBuf> {
    let folder = std::env::var(variable).ok().filter(|folder| !folder.is_empty());
    if folder.is_none() {
        // The text is written directly to stderr, because the test harness captures the output of passing tests.
        let text = format!("SKIPPED: {variable} is not set, nothing was compared\n");
        std::io::stderr().write_all(text.as_bytes()).unwrap();
        assert!(std::env::var("CI").as_deref() != Ok("true"), "CI sets {variable}");
    }
    folder.map(PathBuf::from)
}
