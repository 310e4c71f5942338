//! Plans, made of worlds that are plain data: no sockets, no clock, no chance.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod addons;
mod bootstrap;
mod changes;
mod cleaning;
mod ending;
mod every_kind;
mod hosts;
mod json;
mod laws;
mod obstacle;
mod preflight;
mod spelling;
mod stories;
mod support;
mod template;
mod unproven;
mod vip;
mod vms;
mod world;
