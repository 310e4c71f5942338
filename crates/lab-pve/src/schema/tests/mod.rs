//! Texts and laws that hold without looking at anything else.

mod law;
mod property_string;
mod route;
mod text;

use std::io::Write;
use std::path::PathBuf;

/// A folder of facts to compare with. CI always has it.
#[expect(clippy::disallowed_methods, reason = "tests find their data by the environment")]
pub(super) fn folder(variable: &str) -> Option<PathBuf> {
    let folder = std::env::var(variable).ok().filter(|folder| !folder.is_empty());
    if folder.is_none() {
        // Past the test harness, which keeps quiet about tests that pass.
        let text = format!("SKIPPED: {variable} is not set, nothing was compared\n");
        std::io::stderr().write_all(text.as_bytes()).unwrap();
        assert!(std::env::var("CI").as_deref() != Ok("true"), "CI sets {variable}");
    }
    folder.map(PathBuf::from)
}
