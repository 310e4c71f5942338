//! Environment that all simulated APIs of a lab share: clock, random numbers, faults, reachable hosts and state directory.
//!
//! This crate simulates no API. The crates that simulate an API depend on this crate and not on each other.

mod environment;
pub mod fault;
pub mod fetch;
mod folder;
mod latency;
mod stop;

pub use environment::Environment;
pub use folder::{Folder, private_folder, remove_temporary_folders};
pub use latency::{Profile, Work};
pub use stop::stopped;
