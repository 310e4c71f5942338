//! What moves a node from stage to stage, and what it tells of that.

mod acquire;
mod apply;
mod boot;
mod boot_fault;
mod drain;
mod extension;
mod first_boot;
mod installer;
mod life;
mod lifecycle;
mod meet;
mod order;
mod pull;
mod quorum;
mod reboot;
mod reset;
mod run;
mod stall;
mod status;
mod story;
mod system;
mod ubuntu;
mod upgrade;

pub(super) use boot::{play, uuid};
pub(crate) use lifecycle::Word;
pub(crate) use meet::finds;
pub(crate) use order::Order;
