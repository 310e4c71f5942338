//! The client over real sockets and real TLS, against a server that does what it is told to.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![expect(clippy::disallowed_methods, reason = "data from elsewhere is named by variables")]

mod answers;
mod laws;
mod server;
mod session;
mod tasks;
mod trust;
mod uploads;
mod vectors;
