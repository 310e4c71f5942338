//! Add-ons.

use crate::language::{List, Setting, mapping};
use crate::value::{Checksum, FilePath, HttpUrl};

mapping! {
    /// Manifests that are applied once the cluster runs: from files, or from an address.
    called "an add-on"
    pub struct Addon {
        /// Its name.
        name: Setting<String>,
        /// Files or folders of manifests.
        files ["manifests"]: List<FilePath>,
        /// The address of a manifest.
        url: Setting<HttpUrl>,
        /// The SHA-256 checksum that it must have.
        checksum ["sha256"]: Setting<Checksum>,
    }
}
