//! What `talosctl gen secrets | gen config | machineconfig patch | validate` and the Image
//! Factory's schematic id do, as a pure library.
//!
//! Nothing here reads files, the clock, the environment or the network: the caller hands over
//! bytes and the time.

pub mod age;
pub mod cidata;
pub mod client;
pub mod meta;
pub mod network;
mod node;
pub mod pki;
pub mod random;
pub mod schematic;
pub mod secret;
pub mod secrets;
pub mod sops;
pub mod time;
