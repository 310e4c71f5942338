//! Simulated Proxmox VE: the HTTP API, its rules, and the state of hosts, VMs and storages.
//!
//! This crate does not simulate guests. [`Guests`] reports the power events of VMs. Methods of [`Site`] perform the actions of
//! a guest, such as a power-off from inside the guest. The data that a guest writes to its disk is an opaque JSON value in this
//! crate.

mod api;
mod api_error;
mod archive;
mod auth;
mod blob;
mod call;
mod checksum;
mod digest;
mod fault;
mod gate;
mod guest;
mod ha;
mod http;
mod image;
mod lock;
mod login;
mod permission;
pub mod pve_state;
mod pve_state_guard;
mod release;
mod request_log;
mod schema;
mod site;
mod status_daemon;
mod storage;
mod task;
mod vm;

pub use api_error::ApiError;
pub use auth::{KEY_BYTES, Keys};
pub use blob::{BlobId, Blobs};
pub use gate::Gate;
pub use guest::{GuestEvent, GuestEventKind, Guests};
pub use http::{PveServer, Timeouts};
pub use permission::built_in_roles;
pub use pve_state_guard::PveStateGuard;
pub use release::Release;
pub use request_log::RequestLog;
pub use schema::is_vm_option;
pub use site::Site;
pub use storage::VolumeName;
pub use vm::boot::order as boot_order;
pub use vm::drive::{Drive, DriveSource, drives};
pub use vm::network_card::{NetworkCard, network_cards};
