//! The Kubernetes client, against the API of a simulated cluster.

pub(crate) mod cluster;

mod apply;
mod drain;
mod view;
