//! Actions before a VM is created: schematics, images, mappings, volumes with configs.

use std::time::Duration;

use talmox_pve_types::api::mapping::Mapped;
use talmox_pve_types::api::storage::Checksum;
use talmox_pve_types::id::{ConfigId, NodeName, VolumeId};
use talmox_talos_config::network::FirstNetwork;
use talmox_talos_config::secret::SecretText;

/// Posts a schematic to the Image Factory. It can be repeated.
#[derive(Clone, Debug)]
pub struct PostSchematic {
    /// The address of the factory, without a slash at the end.
    pub factory: String,
    /// The id that the factory must return.
    pub id: String,
    /// The schematic as it is sent.
    pub yaml: String,
    pub deadline: Duration,
}

/// How an image gets to its storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchWay {
    /// The host downloads it.
    Download,
    /// talmox downloads and uploads it.
    Stream,
}

/// Fetches an image to a storage, with the content type `import`.
#[derive(Clone, Debug)]
pub struct FetchImage {
    /// The host of the storage; of a shared storage, any of its hosts.
    pub host: NodeName,
    pub volume: VolumeId,
    pub url: String,
    /// The checksum in the inventory, if any.
    pub checksum: Option<Checksum>,
    /// Files in which the source may publish a checksum, if the inventory has none. The public Image Factory publishes none: then
    /// only length, magic and virtual size are checked.
    pub sums: Vec<String>,
    /// The ways to try, in this order: a host may have no access to the Internet.
    pub ways: Vec<FetchWay>,
    /// Whether the file existed when the plan was made. The step checks that it is complete. It mostly is, so the preflight check
    /// does not require the right to write it.
    pub is_present: bool,
    pub deadline: Duration,
}

/// Creates a mapping of a PCI device, so that a token may pass it through.
#[derive(Clone, Debug)]
pub struct CreateMapping {
    pub id: ConfigId,
    pub mapped: Mapped,
    pub deadline: Duration,
}

/// Uploads a volume with the config of a node, with a unique name.
#[derive(Clone, Debug)]
pub struct UploadCidata {
    pub host: NodeName,
    /// The uploaded volume.
    pub volume: VolumeId,
    pub user_data: SecretText,
    pub instance_id: String,
    pub network: FirstNetwork,
    pub deadline: Duration,
}

/// Size of an overwritten upload, in bytes. No volume with a config is as small.
pub const SCRUBBED: usize = 4096;

/// Overwrites an upload with zeros, by another upload of the same name.
#[derive(Clone, Debug)]
pub struct ScrubCidata {
    pub host: NodeName,
    pub volume: VolumeId,
    /// Whether the token may delete it.
    pub delete: bool,
    pub deadline: Duration,
}

/// Deletes an image of the inventory that no VM needs.
#[derive(Clone, Debug)]
pub struct DeleteImage {
    pub host: NodeName,
    pub volume: VolumeId,
    pub deadline: Duration,
}
