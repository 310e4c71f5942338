//! Tests with etcd clusters of a few nodes.

mod member;
mod recovery;
