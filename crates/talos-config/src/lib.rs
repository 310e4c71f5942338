//! What `talosctl gen secrets | gen config | machineconfig patch | validate` and the Image
//! Factory's schematic id do, as a pure library.
//!
//! Nothing here reads files, the clock, the environment or the network: the caller hands over
//! bytes and the time.

mod any;
mod cel;
pub mod contract;
mod decode;
mod document;
mod encode;
mod format;
pub mod generate;
pub mod lint;
pub mod patch;
mod schema;
mod tree;
pub mod validate;

pub use document::{Config, DecodeError, Document};
pub use schema::Release;
