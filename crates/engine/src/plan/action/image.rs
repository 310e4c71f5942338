//! What is there before a VM is: schematics, images, mappings, volumes with configs.

use std::time::Duration;

use talmox_pve::api::mapping::Mapped;
use talmox_pve::api::storage::Checksum;
use talmox_pve::id::{ConfigId, NodeName, VolumeId};
use talmox_talos_config::network::FirstNetwork;
use talmox_talos_config::secret::SecretText;

/// Tells the Image Factory what an image is made of. It may hear that any number of times.
#[derive(Clone, Debug)]
pub struct PostSchematic {
    /// The address of the factory, without a slash at the end.
    pub factory: String,
    /// What the factory must answer.
    pub id: String,
    /// The schematic as it is sent.
    pub yaml: String,
    pub deadline: Duration,
}

/// How an image gets to its storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchWay {
    /// The host fetches it.
    Download,
    /// We fetch it and pass it on.
    Stream,
}

/// Puts an image onto a storage, with the content type `import`.
#[derive(Clone, Debug)]
pub struct FetchImage {
    /// The host that sees the storage; of a shared one, any.
    pub host: NodeName,
    pub volume: VolumeId,
    pub url: String,
    /// Where the inventory has one.
    pub checksum: Option<Checksum>,
    /// Files in which its source may publish one, for images that the inventory has none for. The public Image Factory
    /// publishes none: then length, magic and virtual size are all that can be checked.
    pub sums: Vec<String>,
    /// To be tried in this order: a host may be without a way to the Internet.
    pub ways: Vec<FetchWay>,
    /// Whether a file of this name was there when the plan was made. Whether it is sound the step
    /// finds out; as it is most of the time, no right to write there is asked for beforehand.
    pub is_present: bool,
    pub deadline: Duration,
}

/// Names a PCI device, so that a token may pass it on.
#[derive(Clone, Debug)]
pub struct CreateMapping {
    pub id: ConfigId,
    pub mapped: Mapped,
    pub deadline: Duration,
}

/// Uploads a volume with the config of a node, under a name that is its own.
#[derive(Clone, Debug)]
pub struct UploadCidata {
    pub host: NodeName,
    /// What is uploaded becomes this.
    pub volume: VolumeId,
    pub user_data: SecretText,
    pub instance_id: String,
    pub network: FirstNetwork,
    pub deadline: Duration,
}

/// How many zeros are left of an upload in the end. No volume with a config is as small.
pub const SCRUBBED: usize = 4096;

/// Overwrites an upload with zeros, by uploading something else under its name.
#[derive(Clone, Debug)]
pub struct ScrubCidata {
    pub host: NodeName,
    pub volume: VolumeId,
    /// Whether we may also delete it.
    pub delete: bool,
    pub deadline: Duration,
}

/// Deletes an image of ours that nobody needs.
#[derive(Clone, Debug)]
pub struct DeleteImage {
    pub host: NodeName,
    pub volume: VolumeId,
    pub deadline: Duration,
}
