//! Changes of running nodes, before they are ordered.
//!
//! The VM and the config of a node are compared separately. A node that must be stopped or rebooted for both is drained only
//! once. So the differences are collected here first, and `rollout.rs` turns them into steps.

use std::collections::BTreeMap;

use talmox_pve_types::config::VmOptions;
use talmox_pve_types::id::{DiskSlot, NodeName, PoolId};
use talmox_talos_config::secret::SecretText;

use crate::desired::Contact;
use crate::plan::{ConfigMode, StepId};

/// Changes of the existing VM of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct VmChange {
    pub(super) set: VmOptions,
    pub(super) delete: Vec<String>,
    /// Disks that grow, with their new size in GiB.
    pub(super) grow: Vec<(DiskSlot, u32)>,
    pub(super) pool: Option<PoolId>,
    pub(super) migrate: Option<Migration>,
    /// Steps that must be done before the options are set, such as the creation of a PCI mapping.
    pub(super) after: Vec<StepId>,
    /// Whether the VM must be stopped and started for the change.
    pub(super) needs_stop: bool,
}

impl VmChange {
    /// Whether the change sets or deletes options, or sets the pool.
    pub(super) fn has_options(&self) -> bool {
        !self.set.is_empty() || !self.delete.is_empty() || self.pool.is_some()
    }

    /// Whether the change sets or deletes a network card.
    pub(super) fn changes_network(&self) -> bool {
        let set = self.set.iter().map(|(key, _)| key);
        set.chain(self.delete.iter().map(String::as_str)).any(|key| key.starts_with("net"))
    }
}

/// Move of a VM to another host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Migration {
    pub(super) target: NodeName,
    pub(super) is_online: bool,
}

/// Change of the config of a Talos node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConfigChange {
    /// `Staged` is never used here. `node_chain.rs` chooses it if the VM is stopped as well.
    pub(super) mode: ConfigMode,
    /// The contact at which the node answers now.
    pub(super) now: Contact,
    /// The config to apply. It keeps the version of Kubernetes that the node runs.
    pub(super) config: SecretText,
}

/// The changes of an existing node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeChange {
    pub(super) vm: Option<VmChange>,
    pub(super) config: Option<ConfigChange>,
    /// Whether the node must boot once with a new cidata volume, because it keeps the network settings of the former one.
    pub(super) renews_volume: bool,
}

impl NodeChange {
    /// Whether the node is stopped or rebooted for this change.
    pub(super) fn stops(&self) -> bool {
        let reboots = |config: &ConfigChange| config.mode == ConfigMode::Reboot;
        self.config.as_ref().is_some_and(reboots)
            || self.renews_volume
            || self.vm.as_ref().is_some_and(|vm| vm.needs_stop)
    }

    /// Whether the rollout orders this change. Options that a running VM accepts at once are not ordered, except those that can cut
    /// the node off from its network.
    pub(super) fn is_rolled_out(&self) -> bool {
        let is_risky =
            |vm: &VmChange| vm.needs_stop || vm.migrate.is_some() || vm.changes_network();
        self.config.is_some() || self.renews_volume || self.vm.as_ref().is_some_and(is_risky)
    }
}

/// The changes of all nodes, by the name of the node.
pub(super) type NodeChanges = BTreeMap<String, NodeChange>;
