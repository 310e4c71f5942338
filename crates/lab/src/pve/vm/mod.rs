//! Virtual machines: what their configuration says, who may change it, and how changes take effect.

pub(crate) mod boot;
pub(crate) mod cloudinit;
mod cloudinit_text;
pub(crate) mod config;
pub(crate) mod disks;
pub(crate) mod drive;
pub(crate) mod identity;
mod launch;
pub(crate) mod machine;
mod pci;
pub(crate) mod pending;
pub(crate) mod power;
pub(crate) mod rights;
pub(crate) mod suspend;
pub(crate) mod tags;
pub(crate) mod update;
