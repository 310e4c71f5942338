//! Tests of the client over real sockets and real TLS, with a scripted server.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod answers;
mod server;
mod session;
mod tasks;
mod trace;
mod trust;
mod uploads;
