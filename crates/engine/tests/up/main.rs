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
mod edited_inventory;
mod edited_proxmox;
mod ending;
mod fault;
mod first_config;
mod inventory;
mod lock;
mod lock_lost;
mod lock_name;
mod lost;
mod machine;
mod matrix;
mod one_etcd;
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
mod unreadable;
mod vnet;
mod way;
