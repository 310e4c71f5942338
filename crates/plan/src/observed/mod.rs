//! Observed state: what the APIs of Proxmox, Talos and Kubernetes report.
//!
//! The observed state is plain data, so that tests can make a plan for any state.

mod addon;
mod image;
mod image_source;
mod kubernetes;
mod proxmox;
mod state;
mod talos;
mod unobserved;
mod vm_address;

pub use addon::{AddonRead, AddonSeen, Addons, ObjectChange, RejectedObject};
pub use image::ImagesSeen;
pub use image_source::{Offer, SourceSeen, has_extension};
pub use kubernetes::{CheckSeen, CheckState, CordonedBy, KubernetesSeen, Registered, UnknownNode};
pub use proxmox::{IdSeen, PassedOn, Pve, Unread, VmSeen};
pub use state::Observed;
pub use talos::{Configured, DryRun, EtcdSeen, PortSeen, TalosSeen, VipSeen};
pub use unobserved::{Answer, Unobserved};
pub use vm_address::{AddressSource, VmAddress};
