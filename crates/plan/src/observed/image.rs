//! Observed contents of the storages for images. Only cleaning up depends on them.

use std::collections::BTreeMap;

use talmox_pve_types::api::storage::Volume;
use talmox_pve_types::id::{NodeName, StorageId, VmId, VolumeId};

use super::unobserved::Answer;

/// Contents and use of the storages for images.
#[derive(Clone, Debug, Default)]
pub struct ImagesSeen {
    /// The image files; those of a shared storage, as one of its hosts lists them.
    pub contents: BTreeMap<(NodeName, StorageId), Answer<Vec<Volume>>>,
    /// Hosts on which a task may be reading an image, and which task.
    pub busy: BTreeMap<NodeName, String>,
    /// Files that the config of a foreign VM names.
    pub used: BTreeMap<VolumeId, VmId>,
    /// Hosts with a VM of another cluster that talmox created, and its id.
    pub others: BTreeMap<NodeName, VmId>,
}
