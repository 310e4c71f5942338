//! The Kubernetes API, from outside.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod access;
mod admission;
mod cluster;
mod kubectl;
mod life;
mod objects;
mod real_kubectl;
mod scale;
mod taint;
mod watch;
