//! The Kubernetes API, from outside.

mod access;
mod cluster;
mod kubectl;
mod life;
mod objects;
mod scale;
mod watch;

pub(crate) use cluster::deployment;
