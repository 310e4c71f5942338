//! API schema: endpoints, parameters with their types and limits, and the error texts of their
//! verification.
//!
//! The tables in `table` and `vm` define them, one line per parameter, for both releases; they are
//! built once per release. [`find`] resolves a path to its [`Endpoint`], [`verify`] checks
//! parameters in the order and with the error texts of Proxmox. Nothing here depends on existing
//! VMs, storages or permissions: other modules check the declared [`Permission`] and everything
//! that handlers reject.

mod check;
mod endpoint;
mod format;
mod formats;
mod perl;
mod property;
mod route;
mod size;
mod table;
mod value;
mod value_format;
mod vm;

#[cfg(test)]
mod schema_comparison;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vector_replay;

pub(crate) use check::verify;
pub(crate) use endpoint::{Endpoint, Groups, Method, Permission};
pub(crate) use format::{Fields, Format};
pub(crate) use formats::{FormatName, cpu_models, format};
pub(crate) use perl::split_list;
pub(crate) use property::ValueKind;
#[cfg(test)]
pub(crate) use route::endpoints;
pub(crate) use route::find;
pub(crate) use size::{format_size, parse_size};
pub(crate) use value::{Parameters, Raw};
pub(crate) use value_format::privileges;
pub use vm::is_vm_option;
pub(crate) use vm::{drive_names, is_drive, vm_option};
