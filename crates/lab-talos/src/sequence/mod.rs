//! Sequences that move a node from stage to stage, with their events.

mod acquire_config;
mod apply;
mod boot;
mod boot_device;
mod boot_events;
mod boot_fault;
mod discovery;
mod drain;
mod extension;
mod first_boot;
mod image_pull;
mod installer;
mod lifecycle;
mod node_boot;
mod quorum_check;
mod reboot;
mod reset;
mod sequence_run;
mod service_control;
mod stall;
mod status;
mod ubuntu;
mod upgrade;

pub(super) use boot::{run_guest, uuid};
pub(crate) use discovery::can_discover;
pub(crate) use lifecycle::InstallerMessage;
pub(crate) use service_control::ServiceOperation;
