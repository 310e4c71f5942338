//! From an inventory to a cluster.
//!
//! [`desired`] says what an inventory stands for, `observe` what there is, [`plan`] what is to be
//! done about the difference; [`ownership`] says which VMs are ours to touch.
//!
//! Nothing here prints, reads files or the environment.

pub mod desired;
pub mod kube;
pub mod ownership;
pub mod patience;
pub mod plan;
