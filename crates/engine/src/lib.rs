//! Observing a cluster and executing plans.
//!
//! [`observe`] reads the state of Proxmox, Talos and Kubernetes; `talmox-plan` plans from it, without
//! I/O; [`execute`] runs the steps of a plan, and reports what happens as events and to a log.
//!
//! Nothing here prints or reads the environment. The only files are the lock and the log, at the
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
