//! What there is: Proxmox, the nodes, Kubernetes. Asked at the same time, and for as little as can
//! be. What does not answer is a fact like any other.

mod world;

pub use world::{
    Addons, Configured, EtcdSeen, IdSeen, Pve, TalosSeen, Told, VipSeen, VmSeen, World,
};
