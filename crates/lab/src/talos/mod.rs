//! Talos nodes: every VM that runs and has something to boot becomes one.
//!
//! [`Realm`] plays the guests of the Proxmox half. [`Land`] is all their data; sequences (boot, apply,
//! reboot, upgrade, reset) move a node from stage to stage, calls look at it and ask for sequences,
//! etcd and Kubernetes are what several nodes make together.

mod api;
#[cfg(test)]
mod bench;
mod cable;
mod config;
mod dhcp;
mod diff;
mod disk;
mod disk_match;
mod etcd;
mod event;
mod face;
mod fault;
mod fleet;
mod hardware;
mod impostor;
mod kubernetes;
mod land;
mod link;
mod network;
mod platform;
mod real;
mod realm;
mod resource;
mod sequence;
mod service;
mod settings;
mod version;
mod vip;
mod wire;
mod written;

pub(crate) use api::method_names;
pub(crate) use cable::Line;
pub(crate) use etcd::SavedCluster;
pub(crate) use fault::Fate;
pub use real::RealKubernetes;
pub(crate) use realm::{Realm, Victim};
pub use settings::NodeSettings;
pub(crate) use wire::Incoming;
pub(crate) use written::Written;
