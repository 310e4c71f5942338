//! Add-ons of a cluster.

use serde::{Deserialize, Serialize};

use crate::plan::PlannedSecret;

/// A file of Kubernetes manifests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFile {
    /// Path or URL of the file, for messages.
    pub origin: String,
    /// Content of the file. It is a secret, because the manifests may contain a `Secret` object.
    pub text: PlannedSecret,
}

/// Source of the manifests of an add-on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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
