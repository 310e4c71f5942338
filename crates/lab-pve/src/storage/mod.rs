//! Storage plugins: names, formats, sizes and operations on volumes.
//!
//! These functions change the simulated state immediately. The task that calls them simulates the duration and holds the lock
//! of the storage. Only [`check_access`] checks permissions; for all other functions the caller checks them.

mod allocation;
mod base_volume;
mod copy;
mod plugin_rules;
mod rename;
mod snapshot;
mod volume;
mod volume_access;
mod volume_name;

#[cfg(test)]
pub(crate) mod fixture;

pub(crate) use allocation::{Allocation, alloc, room};
pub(crate) use base_volume::{clone_image, create_base, is_base_in_use};
pub(crate) use copy::{check_untrusted, copy};
pub(crate) use plugin_rules::{Feature, default_format, folder, format_or_default, formats};
pub(crate) use rename::rename;
pub(crate) use snapshot::{check_rollback, delete_snapshot, rollback, snapshot};
pub(crate) use volume::{
    activate, can, find, free, name_of, path_of, put, resize, size_info, volumes_of,
};
pub(crate) use volume_access::check_access;
pub use volume_name::VolumeName;
pub(crate) use volume_name::{check_file_name, full_name, normalise};
