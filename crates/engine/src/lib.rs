//! Observing a cluster and executing plans.
//!
//! [`observe`] reads the state of Proxmox, Talos and Kubernetes. `talmox-plan` plans from that state, without I/O.
//! [`execute`] runs the steps of a plan, and reports them as events.
//!
//! This crate prints nothing and does not read environment variables. It writes only the lock file and the run log, at the
//! paths that the caller passes.

pub mod access;
mod addon;
pub mod cluster_lock;
pub mod event;
pub mod execute;
pub mod factory;
pub mod kube;
mod locate;
pub mod lock;
mod node_network;
pub mod observe;
mod other_system;
pub mod run_log;
pub mod status;
pub mod step;
mod timeouts;
pub mod web;
