//! The environment that all simulated APIs of a lab share: its time, its chance, its faults, the hosts that it can
//! reach, and its folder.
//!
//! No API is simulated here. The crates that do so know of each other no more than this and a small interface.

mod environment;
pub mod fault;
pub mod fetch;
mod folder;
mod latency;
mod stop;

pub use environment::Environment;
pub use folder::{Folder, private_folder};
pub use latency::{Profile, Work};
pub use stop::stopped;
