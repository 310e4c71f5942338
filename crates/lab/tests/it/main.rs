//! Tests of the lab through its APIs.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod access;
mod auth;
mod cluster;
mod factory;
mod fault;
mod hostile_client;
mod http;
#[path = "../../../lab-kube/tests/it/real_kubectl.rs"]
mod kubectl;
mod proxmox_detail;
mod record;
mod saved_state;
mod storage;
mod support;
mod talos;
mod upload;
mod vector_comparison;
#[path = "../pve_vectors/wildcard.rs"]
mod wildcard;
