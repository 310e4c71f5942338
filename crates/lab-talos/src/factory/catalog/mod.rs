//! Catalog of the Image Factory: Talos versions, extensions and overlays.

mod extension;
mod overlay;

use aws_lc_rs::digest::{self as hash, SHA256};
use semver::Version;

pub(super) use extension::{extensions, is_extension};
pub(super) use overlay::overlays;

/// Minor releases, each with its last patch release.
const RELEASES: [(u64, u64); 6] = [(8, 4), (9, 6), (10, 9), (11, 6), (12, 11), (13, 9)];
/// Pre-releases. Only the newest minor release has pre-releases in the list.
const PRE_RELEASES: [&str; 6] = [
    "1.14.0-alpha.0",
    "1.14.0-alpha.1",
    "1.14.0-alpha.2",
    "1.14.0-beta.0",
    "1.14.0-beta.1",
    "1.14.0-rc.1",
];

/// All Talos versions, from the oldest to the newest.
pub(super) fn versions() -> Vec<Version> {
    let released = RELEASES
        .into_iter()
        .flat_map(|(minor, last)| (0..=last).map(move |patch| Version::new(1, minor, patch)));
    released.chain(PRE_RELEASES.iter().filter_map(|text| Version::parse(text).ok())).collect()
}

/// Digest in the form `sha256:…`. It depends only on the text.
fn digest(text: &str) -> String {
    let sum = hash::digest(&SHA256, text.as_bytes());
    let hex: String = sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_order() {
        let versions = versions();
        assert!(versions.is_sorted());
        assert_eq!(versions.first(), Some(&Version::new(1, 8, 0)));
        assert_eq!(versions.last().unwrap().to_string(), "1.14.0-rc.1");
        assert!(versions.contains(&Version::new(1, 13, 6)));
        assert!(!versions.contains(&Version::new(1, 14, 0)));
    }
}
