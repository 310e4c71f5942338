//! Tests of the engine: the Kubernetes client, single steps, runs of steps, and whole inventories.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../common/mod.rs"]
mod common;
mod kube;
mod new_cluster;
mod run;
mod step;
mod support;
