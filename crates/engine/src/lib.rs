//! From an inventory to what it stands for.
//!
//! So far this crate derives: [`desired`] says which schematics and machine configs an inventory
//! comes to. Observing, planning and executing will stand beside it.
//!
//! Nothing here prints, reads files or the environment.

pub mod desired;
pub mod kube;
pub mod patience;
