//! Time, waiting and random numbers: the only crate that takes them from the machine.
//!
//! A [`Clock`] is real or scaled. On a scaled clock an hour of waiting can take a second of real
//! time, so that a lab simulates a ten-minute cluster creation in seconds. Socket timeouts do not
//! use a scaled clock, because bytes cross a real network.

mod chance;
mod clock;

pub use chance::Chance;
pub use clock::{Clock, Deadline, Elapsed, Moment};
