//! Image from which a system disk is created.

use talmox_model::{Cluster, Node};
use talmox_pve_types::api::storage::{Checksum, Content};
use talmox_pve_types::id::{FileName, StorageId, VolumeId};
use talmox_talos_config::schematic::Schematic;

use super::error::DeriveError;
use super::image::{Image, Platform};
use crate::sha256::sha256_hex;

/// Number of digits of a schematic id in a file name.
const SCHEMATIC: usize = 16;
/// Number of digits of a checksum, or of the hash of a URL, in a file name.
const MARK: usize = 12;

/// Source of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageSource {
    Factory {
        /// The URL of the factory, without a slash at the end.
        factory: String,
        id: String,
        /// The schematic that must be posted to the factory first. None if the inventory sets a schematic ID.
        schematic: Option<String>,
        /// The extensions of the schematic.
        extensions: Vec<String>,
    },
    Url,
}

/// An image. The file name contains digits of a hash, so two images of the same name have the same content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootImage {
    pub file: FileName,
    pub url: String,
    pub checksum: Option<Checksum>,
    pub source: ImageSource,
}

impl BootImage {
    pub(super) fn of(
        cluster: &Cluster,
        node: &Node,
        image: Option<&Image>,
    ) -> Result<Self, DeriveError> {
        match image {
            Some(image) => Self::talos(cluster, node, image),
            None => Self::by_url(node),
        }
    }

    fn talos(cluster: &Cluster, node: &Node, image: &Image) -> Result<Self, DeriveError> {
        let settings = node.settings();
        let version = cluster.file.talos_version.get().ok_or(DeriveError::Missing {
            what: "the Talos version",
            hint: "add `talos_version:`",
        })?;
        let secureboot = if *settings.hardware.secureboot.required() { "-secureboot" } else { "" };
        let platform = match image.platform {
            Platform::Nocloud => "nocloud",
            Platform::Metal => "metal",
        };
        let kind = format!("{platform}-amd64{secureboot}");
        let factory = settings.system.image.factory.required().to_string();
        let factory = factory.trim_end_matches('/').to_owned();
        let id = &image.id;
        let checksum = checksum(node);
        // A changed checksum must give another file name, because an existing file was verified with the checksum in its
        // name.
        let pin = checksum.as_ref().map(|checksum| format!("-{}", mark_of(&checksum.value)));
        let pin = pin.unwrap_or_default();
        let short = &id[..id.len().min(SCHEMATIC)];
        Ok(Self {
            file: format!("talos-{version}-{kind}-{short}{pin}.qcow2").parse()?,
            url: format!("{factory}/image/{id}/{version}/{kind}.qcow2"),
            checksum,
            source: ImageSource::Factory {
                factory,
                id: id.clone(),
                schematic: image.schematic.as_ref().map(Schematic::to_yaml),
                extensions: image
                    .schematic
                    .as_ref()
                    .map(|schematic| schematic.customization.official_extensions.clone())
                    .unwrap_or_default(),
            },
        })
    }

    /// The image at the URL of the inventory. The file gets the suffix `.qcow2`, because cloud images are qcow2 under any
    /// name, and Proxmox imports them only with this suffix.
    fn by_url(node: &Node) -> Result<Self, DeriveError> {
        let url = node
            .settings()
            .system
            .image
            .url
            .get()
            .ok_or(DeriveError::Missing { what: "the image", hint: "add `image: {url: …}`" })?;
        let url = url.to_string();
        let last = url.rsplit('/').next().unwrap_or_default();
        let last = last.split(['?', '#']).next().unwrap_or_default();
        let stem = last.rsplit_once('.').map_or(last, |(stem, _)| stem);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let stem: String = stem.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
        let checksum = checksum(node);
        let mark = match &checksum {
            Some(checksum) => checksum.value.clone(),
            None => sha256_hex(url.as_bytes()),
        };
        let file = format!("image-{stem}-{}.qcow2", mark_of(&mark)).parse()?;
        Ok(Self { file, url, checksum, source: ImageSource::Url })
    }

    /// URLs at which the source may publish the checksum, most likely first. Empty without TLS, because a checksum over plain
    /// HTTP proves nothing.
    pub(crate) fn sums(&self) -> Vec<String> {
        if self.checksum.is_some() || !self.url.starts_with("https://") {
            return vec![];
        }
        match &self.source {
            // Factories with a subscription publish checksums.
            ImageSource::Factory { .. } => vec![format!("{}.sha256", self.url)],
            ImageSource::Url => {
                let path = self.url.split(['?', '#']).next().unwrap_or_default();
                let folder = path.rsplit_once('/').map_or(path, |(folder, _)| folder);
                ["SHA256SUMS", "SHA512SUMS"].map(|name| format!("{folder}/{name}")).into()
            }
        }
    }

    /// The volume of this image on a storage.
    pub fn volume(&self, storage: &StorageId) -> VolumeId {
        import_volume(storage, &self.file)
    }
}

/// Whether a file name is the name of an image of talmox: a description of the content, followed by digits of a hash.
pub(crate) fn is_image_name(file: &str) -> bool {
    let Some((name, mark)) = file.strip_suffix(".qcow2").and_then(|stem| stem.rsplit_once('-'))
    else {
        return false;
    };
    let is_hash = |mark: &str, digits: usize| {
        mark.len() == digits && mark.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    if name.starts_with("image-") {
        return is_hash(mark, MARK);
    }
    // The name of an image with a checksum in the inventory has the checksum after the schematic.
    let is_pinned = || {
        let schematic = name.rsplit_once('-').map(|(_, schematic)| schematic);
        is_hash(mark, MARK) && schematic.is_some_and(|schematic| is_hash(schematic, SCHEMATIC))
    };
    name.starts_with("talos-v") && (is_hash(mark, SCHEMATIC) || is_pinned())
}

/// The digits of a hash that are part of a file name.
fn mark_of(hash: &str) -> &str {
    &hash[..hash.len().min(MARK)]
}

/// The volume of an image file on a storage.
pub(crate) fn import_volume(storage: &StorageId, file: &FileName) -> VolumeId {
    format!("{storage}:{}/{file}", Content::Import.as_str())
        .parse()
        .expect("invariant: storage and file name are well-formed")
}

fn checksum(node: &Node) -> Option<Checksum> {
    let checksum = node.settings().system.image.checksum.get()?;
    Some(Checksum { algorithm: "sha256".to_owned(), value: checksum.hex() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_known_by_their_names() {
        for own in [
            "talos-v1.11.2-nocloud-amd64-376567988ad37013.qcow2",
            "talos-v1.12.0-metal-amd64-secureboot-376567988ad37013.qcow2",
            "talos-v1.12.0-metal-amd64-376567988ad37013-0123456789ab.qcow2",
            "image-noble_server-0123456789ab.qcow2",
        ] {
            assert!(is_image_name(own), "{own}");
        }
        for other in [
            "talos-v1.11.2-nocloud-amd64.qcow2",
            "talos-v1.11.2-nocloud-amd64-376567988ad37013.raw",
            "noble-server-0123456789ab.qcow2",
            "talos-v1.11.2-nocloud-amd64-0123456789ab.qcow2",
            "image-noble.qcow2",
            "talmox-0011223344556677-cp-1.raw",
        ] {
            assert!(!is_image_name(other), "{other}");
        }
    }
}
