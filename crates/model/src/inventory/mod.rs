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
