//! Tests of the program, run as people run it.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![expect(clippy::disallowed_methods, reason = "data from elsewhere is named by variables")]

mod check;
mod clients;
mod cluster;
mod config;
mod ending;
mod example;
mod exchange;
mod explain;
mod facts;
mod git;
mod help;
mod init;
mod keep;
mod lab;
mod life;
mod node;
mod plan;
mod planted;
mod reach;
mod reading;
mod readme;
mod real;
mod render;
mod runs;
mod secrets;
mod seeds;
mod stop;
mod support;
mod talos;
mod trace;
#[path = "../common/truth.rs"]
mod truth;
mod two_checkouts;
mod untrusted;
mod witness;
