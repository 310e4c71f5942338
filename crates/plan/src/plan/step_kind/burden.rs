//! Load of steps.

use talmox_pve_types::id::{NodeName, StorageId};

/// Load of a step. The executor uses it to limit how many steps run on one host or storage at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Burden {
    pub host: Option<NodeName>,
    pub storages: Vec<StorageId>,
    /// Whether the step changes the voting members of etcd. Only one such step runs at a time.
    pub quorum: bool,
}

impl Burden {
    /// Load on a host and on these storages.
    pub(super) fn on(host: &NodeName, storages: impl IntoIterator<Item = StorageId>) -> Self {
        let storages = storages.into_iter().collect();
        Self { host: Some(host.clone()), storages, quorum: false }
    }
}
