//! Tests of the `talmox` program. The program runs in a separate process.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![expect(clippy::disallowed_methods, reason = "data from elsewhere is named by variables")]

mod addons;
mod address_conflict;
mod adopt;
mod check;
mod clients;
mod cluster;
mod config;
mod destroy;
mod etcd;
mod example;
mod explain;
mod export_import;
mod failed_runs;
mod git;
mod help;
mod init;
mod interrupt;
mod kept_lab;
mod lab;
#[path = "../common/lab_state.rs"]
mod lab_state;
mod lifecycle;
mod lost_marker;
mod lost_secrets;
mod node;
mod node_life;
mod output;
mod partial_run;
mod plan;
mod planted_files;
mod proxmox_errors;
mod reading_progress;
mod readme;
mod real_apiserver;
mod render;
mod secrets;
mod status;
mod support;
mod talos_node;
mod trace;
mod trace_decisions;
mod two_checkouts;
mod untrusted;
mod user_documents;
