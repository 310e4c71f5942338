//! Add-ons of a cluster.

use serde::{Deserialize, Serialize};

use crate::plan::PlannedSecret;

/// A file of Kubernetes manifests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFile {
    /// Path or URL of the file, for messages.
    pub origin: String,
    /// A Secret may be among the manifests.
    pub text: PlannedSecret,
}

/// Where the manifests of an add-on come from.
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
