//! Planning, without I/O: desired state, observed state, and the plan that turns the observed state into the desired state.
//!
//! [`desired`] derives the desired state from an inventory. [`observed`] contains the observed state as plain data.
//! [`planning`] compares the two and makes a [`plan`]. [`ownership`] decides which VMs talmox may change. [`rights`] lists
//! the privileges that a plan needs.
//!
//! No dependency of this crate opens a socket or has an async runtime, so planning cannot do I/O.

pub mod desired;
pub mod manifest;
pub mod observed;
pub mod ownership;
pub mod plan;
pub mod planning;
pub mod rights;
pub mod sha256;
