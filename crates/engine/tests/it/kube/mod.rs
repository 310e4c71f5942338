//! The Kubernetes client, against the API of a simulated cluster.

pub(crate) mod cluster;
pub(crate) mod drain;

mod apply;
mod view;
