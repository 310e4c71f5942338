//! Proxmox VE, simulated: its API, the rules behind it, and the machines it pretends to have.
//!
//! This crate simulates no guests: [`Guests`] reports power events of VMs, and methods of [`Site`] are what a guest can do, such as
//! switching itself off. What a guest writes onto its disk is a JSON value that Proxmox keeps and never reads.

mod api;
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
mod record;
mod refusal;
mod release;
mod sampler;
mod schema;
mod site;
mod storage;
mod task;
mod vm;
pub mod world;

pub use auth::{KEY_BYTES, Keys};
pub use blob::{BlobId, Blobs};
pub use gate::Gate;
pub use guest::{GuestEvent, Guests, Moment};
pub use http::{Patience, Server};
pub use permission::built_in_roles;
pub use record::Recorder;
pub use refusal::Refusal;
pub use release::Release;
pub use schema::is_vm_option;
pub use site::Site;
pub use storage::VolumeName;
pub use vm::boot::order as boot_order;
pub use vm::card::{NetworkCard, network_cards};
pub use vm::drive::{Drive, Source, drives};
