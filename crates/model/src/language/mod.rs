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
mod list;
mod mapping;
mod schema;
mod secrecy;
mod shared;
mod slot;
mod suggest;
mod table;

pub(crate) use context::{Context, Key};
pub(crate) use list::take_items;
pub use list::{Chain, List, OneOrMany, Sum};
pub(crate) use mapping::{Mapping, mapping, read_mapping};
pub(crate) use schema::{Schemas, constant_choice, described, schema_of};
pub(crate) use secrecy::{hide_in_lines, hide_in_tree};
pub use shared::Shared;
pub(crate) use slot::{Element, Leaf, Slot};
pub use slot::{Setting, Spanned};
pub(crate) use suggest::closest;
pub(crate) use table::Naming;
pub use table::{AnyName, Table};

/// One row of `check --explain`: a setting, its value, and where that was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// Such as `gpu.pci` or `nics[0].bridge`.
    pub path: String,
    pub value: String,
    pub span: Option<crate::source::Span>,
}
