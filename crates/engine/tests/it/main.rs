//! Tests of what inventories come to.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod examples;
mod kube;
mod settings;
mod support;
mod versions;
