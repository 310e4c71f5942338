//! Time, waiting and chance: the only crate that asks the machine for any of them.
//!
//! A [`Clock`] is real or scaled. On a scaled one an hour of waiting takes a second of ours, so
//! that the lab can run a ten-minute bring-up while somebody looks on. Socket timeouts are not
//! waits of this kind: bytes cross a real network, and those stay real.

mod chance;
mod clock;

pub use chance::Chance;
pub use clock::{Clock, Deadline, Elapsed, Moment};
