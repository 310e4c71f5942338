//! Virtual machines: what their configuration says, who may change it, and how changes take effect.

pub(crate) mod base;
pub(crate) mod boot;
pub(crate) mod clone_disk;
pub(crate) mod clone_rights;
pub(crate) mod cloudinit;
mod cloudinit_text;
pub(crate) mod config;
pub(crate) mod disks;
pub(crate) mod drive;
pub(crate) mod identity;
mod launch;
pub(crate) mod local;
pub(crate) mod local_volumes;
pub(crate) mod machine;
pub(crate) mod migration;
mod pci;
pub(crate) mod pending;
pub(crate) mod power;
pub(crate) mod progress;
pub(crate) mod rights;
pub(crate) mod snapshots;
pub(crate) mod storage_map;
pub(crate) mod suspend;
pub(crate) mod tags;
pub(crate) mod timestamp;
pub(crate) mod update;
pub(crate) mod volumes;
