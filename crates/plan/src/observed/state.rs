//! Observed state as a whole.

use std::collections::BTreeMap;

use super::addon::Addons;
use super::image::ImagesSeen;
use super::image_source::SourceSeen;
use super::kubernetes::KubernetesSeen;
use super::proxmox::Pve;
use super::talos::{PortSeen, TalosSeen, VipSeen};

/// Observed state of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub pve: Pve,
    /// Answer at the address of each node, by name of the node.
    pub nodes: BTreeMap<String, TalosSeen>,
    /// Answer at further ports of the address of a node, by name and port. Addresses at which a node of this cluster
    /// answers are omitted.
    pub ports: BTreeMap<(String, u16), PortSeen>,
    /// Nodes with an operating system other than Talos whose VM runs and that do not answer, and why.
    pub silent: BTreeMap<String, String>,
    pub vip: VipSeen,
    pub kubernetes: KubernetesSeen,
    pub addons: Addons,
    /// State of image factories and web servers, by address. Empty if the plan creates no VM.
    pub sources: BTreeMap<String, SourceSeen>,
    /// Images on the storages. Empty unless the plan destroys the cluster.
    pub images: ImagesSeen,
    /// Whether the secrets bundle was generated in this run. No VM can have the marker or a UUID of such a cluster, so a VM
    /// that cannot be read is not one of its VMs.
    pub are_secrets_new: bool,
}
