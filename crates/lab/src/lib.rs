//! Simulated Proxmox, Talos and Kubernetes on real sockets.
//!
//! The lab behaves like the real APIs. It has the same status codes, messages, locks and delays, and a request fails at the
//! same point as on a real host. The lab does not depend on talmox's engine or inventory, and the engine does not depend on the
//! lab.
//!
//! Each API is simulated in its own crate. This crate combines them: it starts a lab from a scenario, saves its state, and
//! makes the simulated Proxmox the hypervisor of the simulated nodes.

mod blob_cleanup;
mod certificate;
#[cfg(test)]
mod factory_tests;
mod fault_script;
mod hypervisor;
mod invariants;
mod lab;
mod scenario;
mod state;

pub use fault_script::{FaultScript, Known};
pub use invariants::{Violation, Watched, Watcher};
pub use lab::{FactoryReady, Lab, PveReady, Ready, Settings, TimeReady};
pub use scenario::{Scenario, ScenarioError};
pub use state::{has_state, saved_seed, saved_time};
pub use talmox_lab_environment::fault::{Boot, ImpostorKind, NodeAction, TargetNode};
pub use talmox_lab_environment::{Folder, private_folder, remove_temporary_folders};
pub use talmox_lab_talos::{NodeSettings, RealKubernetes};

/// Simulated Kubernetes.
pub mod kube {
    pub use talmox_lab_kube::{
        Failure, KubeControllers, KubeServer, KubeSettings, KubeStore, KubeTls, Machine, control,
        serve,
    };
}

/// Simulated Proxmox, and the faults of a lab.
pub mod pve {
    pub use talmox_lab_environment::fault::{Action, Fault, Faults, PathPattern, When};
    pub use talmox_lab_environment::{Profile, Work};
    pub use talmox_lab_pve::{Release, Timeouts};
}
