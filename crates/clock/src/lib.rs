//! Time, waiting and deterministic random numbers. Other crates use the time of this crate, so that a lab can scale it.
//!
//! A [`Clock`] is real or scaled. On a scaled clock an hour of waiting can take a second of real time, so a lab
//! simulates a ten-minute cluster creation in seconds. Socket timeouts do not use a scaled clock, because bytes cross a
//! real network.
//!
//! All code that waits for a condition uses a [`Wait`], which has a condition, a deadline, a pause and cancellation.

mod cancel;
mod chance;
mod clock;
mod pausable_deadline;
mod wait;

pub use cancel::Cancel;
pub use chance::Chance;
pub use clock::{Clock, Deadline, Elapsed, Moment};
pub use pausable_deadline::{DeadlinePause, PausableDeadline};
pub use wait::{Wait, WaitDeadline, WaitError};
