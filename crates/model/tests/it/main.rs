//! Tests of the inventory: findings, merging of layers, and properties of every text.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod checks;
mod layers;
mod properties;
mod schema;
mod support;
