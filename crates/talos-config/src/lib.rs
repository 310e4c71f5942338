//! Library with the functions of `talosctl gen secrets`, `gen config`, `machineconfig patch` and `validate`, and the
//! schematic ID of the Image Factory.
//!
//! This crate does not read files, the clock, the environment or the network: the caller passes bytes and the time.
//!
//! Documents are trees, and one table (`schema`) describes their structure. [`Config`] parses and writes documents,
//! [`patch`] changes them, and [`validate`] checks them. [`lint`] reports problems that Talos does not report, and
//! [`generate`] generates documents for a version [`contract`]. No document is converted to generic values: the type in
//! the table defines the meaning of a scalar.

pub mod age;
mod any;
pub mod cel;
pub mod cidata;
pub mod client;
pub mod contract;
mod decode;
mod document;
mod encode;
mod format;
pub mod generate;
pub mod leaf;
pub mod lint;
pub mod machine;
pub mod meta;
pub mod network;
pub mod patch;
pub mod pki;
pub mod random;
mod schema;
pub mod schematic;
pub mod secrets;
pub mod sops;
mod tags;
pub mod time;
mod tree;
pub mod validate;

pub use document::{Config, DecodeError, Document};
pub use schema::Release;
pub use talmox_values::secret;
