//! Tests of the inventory: what it finds, how layers merge, what holds for every text.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod checks;
mod layers;
mod properties;
mod schema;
mod support;
