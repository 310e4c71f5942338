//! Texts and laws that hold without looking at anything else.

use std::path::PathBuf;

/// A folder of facts to compare with. CI always has it.
#[expect(clippy::disallowed_methods, reason = "tests find their data by the environment")]
pub(super) fn folder(variable: &str) -> Option<PathBuf> {
    let folder = std::env::var(variable).ok().filter(|folder| !folder.is_empty());
    if folder.is_none() {
        eprintln!("SKIPPED: {variable} is not set, nothing was compared");
        assert!(std::env::var("CI").as_deref() != Ok("true"), "CI sets {variable}");
    }
    folder.map(PathBuf::from)
}
