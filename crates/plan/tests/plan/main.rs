//! Tests of plans. The observed state is plain data, without sockets, clock or randomness.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod addons;
mod bootstrap;
mod change_kinds;
mod changes;
mod config_changes;
mod conflict;
mod decisions;
mod deleted_files;
mod destroy;
mod etcd_command;
mod every_kind;
mod first_config;
mod hosts;
mod ignored;
mod json;
mod left_out;
mod node_command;
mod observed_state;
mod option_spelling;
mod plan_texts;
mod preflight;
mod properties;
mod registration;
mod removal;
mod replacement;
mod rollout;
mod selection;
mod stale_node;
mod support;
mod template;
mod vip;
mod vm_changes;
mod vmids;
mod vms;
