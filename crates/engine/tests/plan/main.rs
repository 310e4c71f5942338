//! Plans, made of worlds that are plain data: no sockets, no clock, no chance.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod bootstrap;
mod laws;
mod obstacle;
mod preflight;
mod stories;
mod support;
mod vms;
mod world;
