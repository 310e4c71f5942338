//! Clusters of a few nodes, from their first member to their last.

mod member;
mod recovery;
