//! The client against its own other side, over TLS on loopback.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod calls;
mod health;
mod newer;
mod node;
mod probe;
mod streams;
mod wait;
mod world;
