//! Add-on settings.

use crate::language::{List, Setting, mapping};
use crate::value::{Checksum, FilePath, HttpUrl};

mapping! {
    /// Manifests that are applied once the cluster runs: from files, or from a URL.
    called "an add-on"
    pub struct Addon {
        /// Name of the add-on.
        name: Setting<String>,
        /// Files or folders of manifests.
        files ["manifests"]: List<FilePath>,
        /// URL of a manifest.
        url: Setting<HttpUrl>,
        /// SHA-256 checksum of the manifest at `url`.
        checksum ["sha256"]: Setting<Checksum>,
    }
}
