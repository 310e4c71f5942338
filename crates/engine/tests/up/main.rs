//! Creates and changes clusters in a lab from inventories, with many kinds of faults.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod addon;
mod budget;
mod cleaning;
#[path = "../common/mod.rs"]
mod common;
mod config_change;
mod crash;
mod crash_change;
mod disk;
mod drift;
mod edited_inventory;
mod edited_proxmox;
mod ending;
mod fault;
mod first_config;
mod inventory;
mod leaving_step;
mod lock;
mod lock_lost;
mod lock_name;
mod lost;
mod machine;
mod matrix;
mod node_power;
mod one_etcd;
mod ownership;
mod picture;
mod pveum;
mod real_apiserver;
mod removal;
mod rig;
mod role;
mod silence;
mod slow;
mod source;
mod story;
mod stranger;
mod tag_policy;
mod unreadable;
mod vm_change;
mod vnet;
mod way;
