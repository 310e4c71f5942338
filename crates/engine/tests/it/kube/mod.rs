//! The Kubernetes client, against the API of a simulated cluster.

mod cluster;

mod apply;
mod drain;
mod view;
