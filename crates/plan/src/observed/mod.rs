//! Observed state: what the APIs of Proxmox, Talos and Kubernetes report.
//!
//! It consists of plain data, so that tests can make a plan for any state, also for one that never existed.

mod addon;
mod image;
mod image_source;
mod kubernetes;
mod proxmox;
mod state;
mod talos;
mod unobserved;

pub use addon::{AddonRead, AddonSeen, Addons, ObjectChange, RejectedObject};
pub use image::ImagesSeen;
pub use image_source::{Offer, SourceSeen, has_extension};
pub use kubernetes::{CheckSeen, CheckState, KubernetesSeen, Registered};
pub use proxmox::{IdSeen, PassedOn, Pve, Unread, VmSeen};
pub use state::Observed;
pub use talos::{Configured, EtcdSeen, PortSeen, TalosSeen, VipSeen};
pub use unobserved::{Answer, Unobserved};
