//! What callers may send: parameters, their types and limits, and the words for what is wrong.
//!
//! The tables in `table` and `vm` say it, one line per parameter, for both releases; they are built
//! once per release. [`find`] leads from a path to its [`Endpoint`], [`verify`] judges parameters in
//! the order and with the words of the real thing. Nothing here knows of VMs, storages or rights
//! that exist: whether a declared [`Permission`] is held, and whatever else a handler refuses, is
//! decided elsewhere.

mod check;
mod code;
mod endpoint;
mod format;
mod formats;
mod perl;
mod property;
mod route;
mod size;
mod table;
mod value;
mod vm;

#[cfg(test)]
mod against_schema;
#[cfg(test)]
mod against_vectors;
#[cfg(test)]
mod tests;

pub(crate) use check::verify;
pub(crate) use code::privileges;
pub(crate) use endpoint::{Endpoint, Groups, Method, Permission};
pub(crate) use format::{Fields, Format};
pub(crate) use formats::{FormatName, cpu_models, format};
pub(crate) use perl::split_list;
pub(crate) use property::Kind;
#[cfg(test)]
pub(crate) use route::endpoints;
pub(crate) use route::find;
pub(crate) use size::{format_size, parse_size};
pub(crate) use value::{Parameters, Raw};
pub use vm::is_vm_option;
pub(crate) use vm::{drive_names, is_drive, vm_option};
