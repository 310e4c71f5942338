//! Proxmox, Talos and Kubernetes, simulated on real sockets.
//!
//! A client cannot tell the lab from the real thing by what it sees: status codes, texts, what is
//! refused early and what fails late, locks, what lags behind. The lab knows nothing of talmox's
//! engine or inventory, and the engine knows nothing of the lab.

mod archive;
mod blob;
mod certificate;
mod checksum;
mod disk;
mod factory;
mod fault;
mod fetch;
mod folder;
mod image;
pub mod kube;
mod lab;
pub mod pve;
mod scenario;
mod state;
mod talos;
mod tidy;

pub use fault::{Boot, Disguise, Known, NodeAction, Who};
pub use lab::{FactoryReady, Lab, PveReady, Ready, Settings, TimeReady};
pub use scenario::{Scenario, ScenarioError};
pub use state::{has_state, saved_seed, saved_time};
pub use talos::{NodeSettings, RealKubernetes};
