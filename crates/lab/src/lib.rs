//! Proxmox, Talos and Kubernetes, simulated on real sockets.
//!
//! A client cannot tell the lab from the real thing by what it sees: status codes, texts, what is
//! refused early and what fails late, locks, what lags behind. The lab knows nothing of talmox's
//! engine or inventory, and the engine knows nothing of the lab.
//!
//! Each API is simulated in a crate of its own. This one joins them: it starts a lab from a scenario, keeps its state, and
//! makes the simulated Proxmox the hypervisor of the simulated nodes.

mod certificate;
#[cfg(test)]
mod factory_tests;
mod fault_script;
mod hypervisor;
mod lab;
mod scenario;
mod state;
mod tidy;

pub use fault_script::{FaultScript, Known};
pub use lab::{FactoryReady, Lab, PveReady, Ready, Settings, TimeReady};
pub use scenario::{Scenario, ScenarioError};
pub use state::{has_state, saved_seed, saved_time};
pub use talmox_lab_environment::fault::{Boot, Disguise, NodeAction, Who};
pub use talmox_lab_talos::{NodeSettings, RealKubernetes};

/// The simulated Kubernetes.
pub mod kube {
    pub use talmox_lab_kube::{
        Failure, KubeControllers, KubeServer, KubeSettings, KubeStore, KubeTls, Machine, control,
        serve,
    };
}

/// The simulated Proxmox, and what goes wrong in a lab.
pub mod pve {
    pub use talmox_lab_environment::fault::{Action, Fault, Faults, PathPattern, When};
    pub use talmox_lab_environment::{Profile, Work};
    pub use talmox_lab_pve::{Patience, Release};
}
