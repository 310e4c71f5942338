//! Tests of the Kubernetes API over HTTPS.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod access;
mod admission;
mod cluster;
mod controller;
mod disruption;
mod kubectl;
mod objects;
mod real_kubectl;
mod scale;
mod taint;
mod watch;
