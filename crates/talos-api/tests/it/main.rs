//! Tests of the client with the server side of this crate, over TLS on loopback.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod calls;
mod fixture;
mod follow;
mod health;
mod lifecycle_services;
mod node;
mod operations;
mod oracle;
mod probe;
mod streams;
mod wait;
