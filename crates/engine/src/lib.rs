//! From an inventory to a cluster.
//!
//! [`desired`] says what an inventory stands for, [`observe`] what there is, [`plan`] what is to be
//! done about the difference; [`ownership`] says which VMs are ours to touch.
//!
//! [`execute`] carries a plan out, step by step; what happens is told as events, and to a log.
//!
//! Nothing here prints or reads the environment. The only files are the lock and the log, where the
//! caller wants them.

pub mod access;
mod addon;
pub mod cluster_lock;
pub mod desired;
pub mod event;
pub mod execute;
pub mod factory;
pub mod kube;
mod locate;
pub mod lock;
pub mod observe;
mod other_system;
pub mod ownership;
pub mod patience;
pub mod plan;
pub mod role;
pub mod run_log;
mod sdn_zone;
pub mod settled;
pub mod status;
pub mod step;
pub mod template_mark;
pub mod web;
