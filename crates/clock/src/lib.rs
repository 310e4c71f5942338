//! Time, waiting and random numbers: the only crate that takes them from the machine.
//!
//! A [`Clock`] is real or scaled. On a scaled clock an hour of waiting can take a second of real
//! time, so that a lab simulates a ten-minute cluster creation in seconds. Socket timeouts do not
//! use a scaled clock, because bytes cross a real network.
//!
//! A [`Wait`] is the one way to wait for a condition, with a reason, a deadline, a pause and cancellation.

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
