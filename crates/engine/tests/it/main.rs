//! Tests of what inventories come to.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../common/mod.rs"]
mod common;
mod examples;
mod kube;
mod overlay;
mod run;
mod settings;
mod step;
mod support;
mod versions;
mod whole;
