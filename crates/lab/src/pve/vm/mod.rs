//! Virtual machines: what their configuration says, who may change it, and how changes take effect.

pub(crate) mod boot;
pub(crate) mod config;
pub(crate) mod disks;
pub(crate) mod drive;
pub(crate) mod identity;
pub(crate) mod pending;
pub(crate) mod rights;
pub(crate) mod tags;
pub(crate) mod update;
