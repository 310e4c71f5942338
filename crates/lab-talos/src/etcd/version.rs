//! etcd version of each Talos release.

use crate::version::Version;

/// Default etcd version of a Talos release. It is both the tag of the image and the version that members report, so `EtcdSpec`
/// and `EtcdStatus` agree.
pub(crate) fn version(talos: &Version) -> &'static str {
    match (talos.minor, talos.patch) {
        (..=8, ..=3) => "3.5.16",
        (..=8, _) | (9, ..=2) => "3.5.17",
        (9, 3..=4) => "3.5.18",
        (9, 5) => "3.5.19",
        (9, _) | (10, ..=8) => "3.5.21",
        (10, _) => "3.5.26",
        (11, ..=2) => "3.6.4",
        (11, _) => "3.6.5",
        (12, ..=4) => "3.6.7",
        (12, 5..=6) => "3.6.8",
        (12, 7) | (13, 0) => "3.6.9",
        (12, _) | (13, ..=3) => "3.6.11",
        (13, _) => "3.6.12",
        _ => "3.7.1",
    }
}

/// Version of the data format of an etcd version, such as `3.6.0` for every 3.6.
pub(super) fn storage_version(etcd: &str) -> String {
    let minor = etcd.rsplit_once('.').map_or(etcd, |(minor, _)| minor);
    format!("{minor}.0")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected versions are `DefaultEtcdVersion` in the constants of these Talos tags.
    #[test]
    fn releases_run_their_default_etcd_version() {
        for (talos, etcd) in [
            ("v1.8.0", "3.5.16"),
            ("v1.8.4", "3.5.17"),
            ("v1.9.6", "3.5.21"),
            ("v1.10.8", "3.5.21"),
            ("v1.10.9", "3.5.26"),
            ("v1.11.3", "3.6.5"),
            ("v1.12.0", "3.6.7"),
            ("v1.12.7", "3.6.9"),
            ("v1.12.11", "3.6.11"),
            ("v1.13.0", "3.6.9"),
            ("v1.13.6", "3.6.12"),
            ("v1.14.0-rc.1", "3.7.1"),
        ] {
            assert_eq!(version(&Version::parse(talos).unwrap()), etcd, "{talos}");
        }
        assert_eq!(storage_version("3.6.12"), "3.6.0");
    }
}
