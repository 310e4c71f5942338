//! Image settings.

use crate::language::{List, Setting, Sum, mapping};
use crate::value::{Checksum, Extension, HttpUrl, SchematicId};

mapping! {
    /// Image that the system disk is created from.
    called "`image`"
    pub struct Image {
        /// URL of the Image Factory.
        factory: Setting<HttpUrl>,
        /// Talos system extensions. Extensions of all layers are combined: a class lists only those that it adds.
        extensions: Sum<Extension>,
        /// Kernel arguments.
        kernel_args: List<String>,
        /// The id of an existing schematic, in place of extensions and kernel_args.
        schematic: Setting<SchematicId>,
        /// URL of an image, for systems other than Talos.
        url: Setting<HttpUrl>,
        /// SHA-256 checksum of the image.
        checksum ["sha256"]: Setting<Checksum>,
    }
}

impl Image {
    /// Whether the image has this system extension.
    pub fn has_extension(&self, name: &str) -> bool {
        self.extensions.values().any(|extension| extension.as_str() == name)
    }
}
