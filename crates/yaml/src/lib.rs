//! A lossless YAML tree.
//!
//! Both the inventory and Talos's documents are read into this tree. A scalar stays the text that
//! stood in the file, together with how it was written; what it *means* (`off`, `0644`, `1_000`) is
//! decided by whoever knows the type that is wanted. Every node knows its place in the source.
//!
//! This crate exists so that one place knows the parser: `talmox-model` and `talmox-talos-config`
//! depend on the tree, not on a YAML library.
//!
//! It deliberately has no generic "value" type and no serde support: a value that is read without
//! knowing its type is how `off` becomes `false`.

pub mod build;
mod comment;
mod emit;
mod go_yaml;
mod key_order;
mod quote;
mod read;
mod scalar;
mod timestamp;
mod tree;

pub use emit::{BINARY_TAG, GoYaml, STRING_TAG, TIMESTAMP_TAG, emit, emit_all, emit_as};
pub use key_order::key_order;
pub use read::{
    Limits, ReadError, ReadErrorKind, read, read_first, read_nodes, read_with, read_with_comments,
};
pub use scalar::{Resolved, Scalar, Style};
pub use timestamp::timestamp;
pub use tree::{Entry, Map, Node, Seq, Span, Value};
