//! Observed contents of the storages for images. Only the deletion of images depends on these contents.

use std::collections::BTreeMap;

use talmox_pve_types::api::storage::Volume;
use talmox_pve_types::id::{NodeName, StorageId, VmId, VolumeId};

use super::unobserved::Answer;

/// Contents and use of the storages for images.
#[derive(Clone, Debug, Default)]
pub struct ImagesSeen {
    /// The image files, by host and storage. A shared storage is listed on one of its hosts only.
    pub contents: BTreeMap<(NodeName, StorageId), Answer<Vec<Volume>>>,
    /// Hosts on which a task may be reading an image, with a description of the task.
    pub busy: BTreeMap<NodeName, String>,
    /// Files that the config of a foreign VM refers to, with the vmid of that VM.
    pub used: BTreeMap<VolumeId, VmId>,
    /// Hosts with a VM that talmox created for another cluster, with the vmid of that VM.
    pub others: BTreeMap<NodeName, VmId>,
}
