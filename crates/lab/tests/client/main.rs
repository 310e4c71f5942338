//! The client against the lab: what one says, the other understands, also when things go wrong.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod behaviour;
mod cluster;
mod flow;
mod kill;
mod machine;
mod matrix;
mod rig;
mod server;
mod session;
