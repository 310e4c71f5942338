//! All keys of the inventory.
//!
//! The declarations in the submodules are the reference manual. `talmox schema` generates the JSON schema from them.

mod addon;
mod cloud_init;
mod cluster;
mod hardware;
mod ignored;
mod image;
mod network;
mod node;
mod proxmox;
mod system;
mod tailscale;

use crate::language::Mapping;

pub use addon::{Addon, ChartOrigin, ManifestEntry, ManifestSource};
pub use cloud_init::{CloudInit, CloudInitFile, User};
pub use cluster::{InventoryFile, Patches, Roles, Timeouts};
pub use hardware::{Disk, Gpu, Hardware, Nic, Placement, Startup, Vlan};
pub use ignored::IgnoredDifference;
pub use image::Image;
pub use network::{ManagedCni, Network};
pub use node::{NodeEntry, Settings};
pub use proxmox::Proxmox;
pub use system::{Kubelet, KubernetesNode, Mirror, Mount, Registries, RegistryAuth, System};
pub use tailscale::Tailscale;

/// Mapping that declares a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyPlace {
    /// Type name of the mapping.
    pub(crate) mapping: &'static str,
    /// Text for a hint, such as "under `network:`".
    pub(crate) place: &'static str,
}

/// Mapping that declares this key. It is used for the hint about a key in the wrong place.
pub(crate) fn place_of_key(key: &str) -> Option<KeyPlace> {
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
    homes.iter().find_map(|(has, place)| has(key).map(|mapping| KeyPlace { mapping, place }))
}
