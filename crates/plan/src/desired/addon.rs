//! Add-ons of a cluster.

/// A file of Kubernetes manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestFile {
    /// Path or URL of the file, for messages.
    pub origin: String,
    pub text: String,
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
