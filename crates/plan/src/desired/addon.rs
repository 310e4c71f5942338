//! Add-ons of a cluster.

use std::fmt;

/// A file of Kubernetes manifests. Secrets may be among them, so `Debug` shows only its origin.
#[derive(Clone, PartialEq, Eq)]
pub struct ManifestFile {
    /// Path or URL of the file, for messages.
    pub origin: String,
    pub text: String,
}

impl fmt::Debug for ManifestFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManifestFile").field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// Where the manifests of an add-on come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddonSource {
    Texts(Vec<ManifestFile>),
    Url {
        url: String,
        /// SHA-256 in hexadecimal digits.
        checksum: Option<String>,
    },
}

/// An add-on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addon {
    pub name: String,
    pub source: AddonSource,
}
