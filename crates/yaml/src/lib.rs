//! Lossless YAML tree.
//!
//! The inventory and the documents of Talos are read into this tree. A scalar keeps its text and its style. The code
//! that reads a field has the expected type, so it decides the meaning of `off`, `0644` or `1_000`. Every node has its
//! position in the source.
//!
//! Only this crate depends on a YAML library: `talmox-model` and `talmox-talos-config` depend on this tree.
//!
//! This crate deliberately has no generic "value" type and no serde support. Reading a value without its expected type
//! would turn `off` into `false`.

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
