//! Tests of plans. The observed state is plain data, without sockets, clock or randomness.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod addons;
mod bootstrap;
mod change_kinds;
mod changes;
mod cleaning;
mod config_changes;
mod ending;
mod etcd_command;
mod every_kind;
mod hosts;
mod ignored;
mod json;
mod laws;
mod left_out;
mod node_command;
mod obstacle;
mod preflight;
mod removal;
mod replacement;
mod rollout;
mod selection;
mod spelling;
mod stories;
mod support;
mod template;
mod unproven;
mod vip;
mod vm_changes;
mod vmids;
mod vms;
mod world;
