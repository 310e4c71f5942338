//! Pure library for `talosctl gen secrets | gen config | machineconfig patch | validate` and the schematic ID of the
//! Image Factory.
//!
//! Nothing here reads files, the clock, the environment or the network: the caller passes bytes and the time.
//!
//! Documents are trees that one table (`schema`) describes: [`Config`] parses and writes them, [`patch`] changes
//! them, [`validate`] checks them, [`lint`] reports problems that Talos does not, and [`generate`] generates them for
//! a version [`contract`]. No document passes through a generic value: the type in the table defines the meaning of a
//! scalar.

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
