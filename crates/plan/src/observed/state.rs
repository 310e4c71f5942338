//! Observed state of a whole cluster.

use std::collections::BTreeMap;
use std::net::IpAddr;

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
    /// Answer at the address of each node, by the name of the node.
    pub nodes: BTreeMap<String, TalosSeen>,
    /// Answer at further ports of the address of a node, by the name of the node and the port. If a node of this cluster
    /// answers at an address, the ports of that address are omitted.
    pub ports: BTreeMap<(String, u16), PortSeen>,
    /// Nodes that run an operating system other than Talos and do not answer although their VM runs, with the reason.
    pub silent: BTreeMap<String, String>,
    pub vip: VipSeen,
    pub kubernetes: KubernetesSeen,
    pub addons: Addons,
    /// State of image factories and web servers, by address. Empty if the plan creates no VM.
    pub sources: BTreeMap<String, SourceSeen>,
    /// Images on the storages. Empty unless the plan destroys the cluster.
    pub images: ImagesSeen,
    /// Addresses of orphans that other nodes discovered, by the name of the orphan.
    pub orphan_addresses: BTreeMap<String, Vec<IpAddr>>,
    /// Whether the secrets bundle was generated in this run. If so, no VM can have a marker or UUID that is derived from the
    /// bundle. So a VM that cannot be read is not a VM of this cluster.
    pub are_secrets_new: bool,
}
