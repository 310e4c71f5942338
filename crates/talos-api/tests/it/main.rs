//! The client against its own other side, over TLS on loopback.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod calls;
mod follow;
mod health;
mod newer;
mod node;
mod oracle;
mod probe;
mod streams;
mod wait;
mod work;
mod world;
