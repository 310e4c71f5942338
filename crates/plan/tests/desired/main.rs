//! Tests of the desired state of inventories.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod examples;
mod overlay;
mod settings;
mod support;
mod versions;
