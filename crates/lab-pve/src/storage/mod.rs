//! Storages as their plugins treat them: names, formats, sizes, and what can be done with volumes.
//!
//! Everything here acts on the world at once. Time passes, and the locks of storages are held, where
//! a task calls this. Rights are looked at by those who call, apart from [`check_access`].

mod access;
mod alloc;
mod base;
mod copy;
mod name;
mod rename;
mod rules;
mod snapshot;
mod volume;

#[cfg(test)]
pub(crate) mod fixture;

pub(crate) use access::check_access;
pub(crate) use alloc::{Allocation, alloc, room};
pub(crate) use base::{clone_image, create_base, is_base_in_use};
pub(crate) use copy::{check_untrusted, copy};
pub use name::VolumeName;
pub(crate) use name::{check_file_name, full_name, normalise};
pub(crate) use rename::rename;
pub(crate) use rules::{Feature, default_format, folder, format_or_default, formats};
pub(crate) use snapshot::{check_rollback, delete_snapshot, rollback, snapshot};
pub(crate) use volume::{
    activate, can, find, free, name_of, path_of, put, resize, size_info, volumes_of,
};
