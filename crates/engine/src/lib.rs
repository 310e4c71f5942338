//! Observing a cluster and executing plans.
//!
//! [`observe`] reads the state of Proxmox, Talos and Kubernetes; `talmox-plan` plans from it, without
//! I/O; [`execute`] runs the steps of a plan, and reports what happens as events and to a log.
//!
//! Nothing here prints or reads the environment. The only files are the lock and the log, at the
//! paths that the caller passes.

pub mod access;
mod addon;
mod cancel;
pub mod cluster_lock;
pub mod event;
pub mod execute;
pub mod factory;
pub mod kube;
mod locate;
pub mod lock;
pub mod observe;
mod other_system;
pub mod patience;
pub mod run_log;
mod settled;
pub mod status;
pub mod step;
pub mod web;
