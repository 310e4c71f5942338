//! What `talosctl gen secrets | gen config | machineconfig patch | validate` and the Image
//! Factory's schematic id do, as a pure library.
//!
//! Nothing here reads files, the clock, the environment or the network: the caller hands over
//! bytes and the time.
//!
//! Documents are trees driven by one table (`schema`): [`Config`] reads and writes them,
//! [`patch`] changes them, [`validate`] judges them, [`lint`] says what Talos does not, and
//! [`generate`] makes them for a version [`contract`]. No document passes through a generic value:
//! what a scalar means is decided by the type the table gives it.

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
