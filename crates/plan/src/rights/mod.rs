//! Rights on Proxmox: which privileges talmox needs, on which paths, and the commands that grant them.

mod download;
pub mod lock_pool;
mod role;
pub(crate) mod sdn_zone;

pub(crate) use download::may_download;
pub use role::{Grants, PveRole};
pub(crate) use sdn_zone::{BridgeZones, may_be_vnet};
