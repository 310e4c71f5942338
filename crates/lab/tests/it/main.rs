//! Everything that is tested from outside, in one program.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod abuse;
mod access;
mod auth;
mod cluster;
mod factory;
mod fault;
mod http;
mod keep;
#[path = "../../../lab-kube/tests/it/real_kubectl.rs"]
mod kubectl;
mod record;
mod storage;
mod strict;
mod support;
mod talos;
mod upload;
mod vector_comparison;
#[path = "../pve_vectors/wildcard.rs"]
mod wildcard;
