//! Observed state as a whole.

use std::collections::BTreeMap;

use super::addon::Addons;
use super::image::ImagesSeen;
use super::image_source::SourceSeen;
use super::kubernetes::KubernetesSeen;
use super::proxmox::Pve;
use super::talos::{PortSeen, TalosSeen, VipSeen};

/// What the APIs report.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub pve: Pve,
    /// What answers at the address of each node.
    pub nodes: BTreeMap<String, TalosSeen>,
    /// What answers at further ports of the address of a node, unless that is known to be a node of this cluster.
    pub ports: BTreeMap<(String, u16), PortSeen>,
    /// Nodes with an operating system other than Talos whose VM runs and that do not answer, and why.
    pub silent: BTreeMap<String, String>,
    pub vip: VipSeen,
    pub kubernetes: KubernetesSeen,
    pub addons: Addons,
    /// What image factories and web servers report, by address; empty if the plan creates no VM.
    pub sources: BTreeMap<String, SourceSeen>,
    /// The storages for images; empty unless a cluster is destroyed.
    pub images: ImagesSeen,
    /// Whether the secrets bundle was generated in this run. No VM can carry the marker or a UUID of such a cluster, so a VM
    /// that cannot be read is not one of its VMs.
    pub are_secrets_new: bool,
}
