//! The Talos API of a node.
