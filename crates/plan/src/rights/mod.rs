//! Rights on Proxmox: the privileges that talmox needs, the paths on which it needs them, and the commands that grant them.

mod download;
pub mod lock_pool;
mod role;
pub(crate) mod sdn_zone;

pub(crate) use download::may_download;
pub use role::{Grants, PveRole};
pub(crate) use sdn_zone::{BridgeZones, may_be_vnet};
