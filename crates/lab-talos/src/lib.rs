//! Simulated Talos nodes: every VM of a hypervisor that runs and has something to boot becomes one.
//!
//! [`Simulation`] plays the guests of a [`Hypervisor`]. `TalosState` is all their data; sequences (boot, apply,
//! reboot, upgrade, reset) move a node from stage to stage, calls look at it and ask for sequences,
//! etcd and Kubernetes are what several nodes make together. [`factory`] is where their images come from.

mod api;
mod apid;
#[cfg(test)]
mod bench;
mod config;
mod connectivity;
mod dhcp;
mod diff;
mod disk;
mod disk_match;
mod etcd;
mod event;
pub mod factory;
mod fault;
mod fleet;
mod hardware;
mod hypervisor;
pub mod image;
mod impostor;
mod kubernetes;
mod link;
mod network;
mod platform;
mod real;
mod resource;
mod sequence;
mod service;
mod settings;
mod simulation;
mod talos_state;
mod version;
mod vip;
mod wire;
mod written;

pub use api::method_names;
pub use disk::Disk;
pub use etcd::SavedCluster;
pub use hardware::{Card, Hardware, PciPassed};
pub use hypervisor::{
    AgentInterface, AgentReport, DiskContent, Hypervisor, PowerEvent, PowerEvents, RunningState,
};
pub use real::RealKubernetes;
pub use settings::NodeSettings;
pub use simulation::Simulation;
pub use written::{DiskKey, Written};
