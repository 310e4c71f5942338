//! The machinery of the inventory language.
//!
//! A mapping of the language is declared once, with [`mapping!`](mapping). From that declaration
//! come the typed struct, its reading with all findings at once, the merging of layers, the rows
//! of `check --explain` and the JSON schema, so that they cannot disagree.
//!
//! * [`Leaf`]: a value that is written as one scalar (a size, an address, a version…).
//! * [`Element`]: a value that can stand in a list: a leaf, a mapping, a reference.
//! * [`Slot`]: what a key of a mapping holds, and what happens when a stronger layer has it too.
//! * [`Mapping`]: a set of keys.

mod context;
mod mapping;
mod schema;
mod slot;
mod suggest;

pub(crate) use context::{Context, Key};
pub(crate) use mapping::{Mapping, mapping, read_mapping};
pub(crate) use schema::{Schemas, constant_choice, described, schema_of};
pub use slot::{Chain, List, OneOrMany, Setting, Spanned, Sum, Table};
pub(crate) use slot::{Element, Leaf, Slot};
pub(crate) use suggest::closest;

/// One row of `check --explain`: a setting, its value, and where that was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// Such as `gpu.pci` or `nics[0].bridge`.
    pub path: String,
    pub value: String,
    pub span: Option<crate::source::Span>,
}
