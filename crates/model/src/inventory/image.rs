//! Images.

use crate::language::{List, Setting, Sum, mapping};
use crate::value::{Checksum, Extension, HttpUrl, SchematicId};

mapping! {
    /// What the system disk starts from.
    called "`image`"
    pub struct Image {
        /// The Image Factory.
        factory: Setting<HttpUrl>,
        /// Talos system extensions. They add up: a class names only what it adds.
        extensions: Sum<Extension>,
        /// Kernel arguments.
        kernel_args: List<String>,
        /// The id of a schematic that exists already, in place of extensions and kernel_args.
        schematic: Setting<SchematicId>,
        /// The address of an image, for systems other than Talos.
        url: Setting<HttpUrl>,
        /// The SHA-256 checksum that the image must have.
        checksum ["sha256"]: Setting<Checksum>,
    }
}

impl Image {
    /// True if it has this system extension.
    pub fn has_extension(&self, name: &str) -> bool {
        self.extensions.values().any(|extension| extension.as_str() == name)
    }
}
