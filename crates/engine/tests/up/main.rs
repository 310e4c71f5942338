//! From an inventory to a cluster in the lab, with all that can go wrong on the way.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod addon;
mod budget;
mod cleaning;
#[path = "../common/mod.rs"]
mod common;
mod crash;
mod disk;
mod drift;
mod ending;
mod fault;
mod inventory;
mod lost;
mod machine;
mod matrix;
mod ownership;
mod picture;
mod pveum;
mod rig;
mod role;
mod silence;
mod slow;
mod source;
mod story;
mod stranger;
mod tag_policy;
mod vnet;
mod way;
