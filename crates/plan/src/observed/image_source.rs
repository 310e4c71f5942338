//! Observed state of the servers that images are downloaded from: image factories and web servers.

use std::collections::BTreeSet;

/// Extensions or versions that an image factory offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    /// The names of the extensions that the factory has for the requested version.
    Extensions(BTreeSet<String>),
    NoSuchVersion {
        /// The versions of the same minor release that the factory has.
        similar: Vec<String>,
    },
}

/// State of an image factory, or of a web server with images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceSeen {
    /// No connection to the server is possible.
    Unreachable(String),
    /// The server answers with an error.
    Fails(String),
    /// An image factory answers. The value says which extensions or versions it offers.
    Offers(Offer),
    /// The web server has the image file.
    Answers,
}

/// Old and new names of extensions. The factory accepts an old name if it has the extension under the new name.
const RENAMED: [(&str, &str); 11] = [
    ("amdgpu-firmware", "amdgpu"),
    ("gasket", "gasket-driver"),
    ("i915-ucode", "i915"),
    ("nonfree-kmod-nvidia", "nonfree-kmod-nvidia-lts"),
    ("nvidia-container-toolkit", "nvidia-container-toolkit-lts"),
    ("nvidia-fabricmanager", "nvidia-fabric-manager-lts"),
    ("nvidia-open-gpu-kernel-modules", "nvidia-open-gpu-kernel-modules-lts"),
    ("talos-vmtoolsd", "vmtoolsd-guest-agent"),
    ("usb-modem", "usb-modem-drivers"),
    ("v4l-uvc", "v4l-uvc-drivers"),
    ("xe-guest-utilities", "xen-guest-agent"),
];

/// Whether a factory has an extension, under this name or under the new name of the extension.
pub fn has_extension(known: &BTreeSet<String>, name: &str) -> bool {
    let new = name.strip_prefix("siderolabs/").and_then(|bare| {
        RENAMED.iter().find(|(old, _)| *old == bare).map(|(_, new)| format!("siderolabs/{new}"))
    });
    known.contains(name) || new.is_some_and(|new| known.contains(&new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_known_by_their_old_names_too() {
        let known = BTreeSet::from(["siderolabs/i915".to_owned()]);
        assert!(has_extension(&known, "siderolabs/i915"));
        assert!(has_extension(&known, "siderolabs/i915-ucode"));
        assert!(!has_extension(&known, "i915-ucode"));
        assert!(!has_extension(&known, "siderolabs/gasket"));
    }
}
