//! Simulated Talos nodes. Every running VM of a hypervisor that boots Talos from a disk or CD becomes a node.
//!
//! [`Simulation`] runs the guests of a [`Hypervisor`]. `TalosState` contains their data. Sequences (boot, apply, reboot,
//! upgrade, reset) move a node from stage to stage. API calls read the state and request sequences. Several nodes together form
//! etcd and Kubernetes clusters. [`factory`] provides the images.

mod api;
mod apid;
mod config;
mod connectivity;
mod dhcp;
mod diff;
mod disk;
mod disk_data;
mod disk_match;
mod etcd;
mod event;
pub mod factory;
mod fault;
mod hardware;
mod hypervisor;
pub mod image;
mod impostor;
mod kubernetes;
mod link;
mod loopback_network;
mod network;
mod platform;
mod power;
mod real_kubernetes;
mod resource;
mod sequence;
mod service;
mod settings;
mod simulation;
mod state_observer;
mod talos_state;
#[cfg(test)]
mod test_bench;
mod version;
mod vip;

pub use api::method_names;
pub use disk::Disk;
pub use disk_data::{DiskKey, Written};
pub use etcd::SavedCluster;
pub use hardware::{Card, Hardware, PciPassed};
pub use hypervisor::{
    AgentInterface, AgentReport, DiskContent, Hypervisor, PowerEvent, PowerEvents, RunningState,
};
pub use real_kubernetes::RealKubernetes;
pub use settings::NodeSettings;
pub use simulation::Simulation;
pub use state_observer::{EtcdFacts, MemberFacts, NodeFacts, StateFacts};
