//! The Kubernetes API, from outside.

mod access;
mod admission;
mod cluster;
mod kubectl;
mod life;
mod objects;
mod scale;
mod taint;
mod watch;

pub(crate) use cluster::deployment;
