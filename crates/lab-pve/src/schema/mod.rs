//! API schema: endpoints, parameters with their types and limits, and the error texts of the verification.
//!
//! The tables in `table` and `vm` define endpoints and parameters for both releases, one line per parameter. They are built
//! once per release. [`find`] finds the [`Endpoint`] of a path. [`verify`] checks parameters in the order and with the error
//! texts of Proxmox. Nothing here depends on existing VMs, storages or permissions. Other modules check the declared
//! [`Permission`], and handlers make the checks that depend on the state.

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
