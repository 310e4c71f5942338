//! The inventory language: every key there is.
//!
//! Read these declarations as the reference manual. `talmox schema` is generated from them.

mod addon;
mod cloud_init;
mod cluster;
mod hardware;
mod image;
mod network;
mod node;
mod proxmox;
mod system;
mod tailscale;

use crate::language::Mapping;

pub use addon::Addon;
pub use cloud_init::{CloudInit, CloudInitFile, User};
pub use cluster::{InventoryFile, Patches, Roles, Timeouts};
pub use hardware::{Disk, Gpu, Hardware, Nic, Placement, Vlan};
pub use image::Image;
pub use network::Network;
pub use node::{NodeEntry, Settings};
pub use proxmox::Proxmox;
pub use system::{Kubelet, KubernetesNode, Mirror, Mount, Registries, RegistryAuth, System};
pub use tailscale::Tailscale;

/// Where a key of the language belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home {
    /// The mapping that declares it.
    pub(crate) mapping: &'static str,
    /// For people: "under `network:`".
    pub(crate) place: &'static str,
}

/// The mapping that has this key, for those who wrote it somewhere else.
pub(crate) fn home_of(key: &str) -> Option<Home> {
    type Lookup = fn(&str) -> Option<&'static str>;
    fn has<M: Mapping>(key: &str) -> Option<&'static str> {
        M::canonical(key).map(|_| M::TYPE)
    }
    let homes: [(Lookup, &'static str); 8] = [
        (has::<InventoryFile>, "at the top level of the file"),
        (has::<Network>, "under `network:`"),
        (has::<Proxmox>, "under `proxmox:`"),
        (has::<Image>, "under `image:`"),
        (has::<Settings>, "to a node, a class, a role or `machine:`"),
        (has::<NodeEntry>, "to a node"),
        (has::<Gpu>, "under `gpu:`"),
        (has::<Timeouts>, "under `timeouts:`"),
    ];
    homes.iter().find_map(|(has, place)| has(key).map(|mapping| Home { mapping, place }))
}
