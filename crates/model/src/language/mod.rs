//! Declaration, reading and merging of the inventory's mappings.
//!
//! A layer is one source of settings: the built-in settings, a file, a role, a class or a node.
//!
//! A mapping is declared once, with [`mapping!`](mapping). The declaration generates the typed struct, its parser, the
//! merging of layers, the rows of `check --explain` and the JSON schema. Therefore they always match.
//!
//! * [`Leaf`]: a value that is written as one scalar (a size, an address, a version…).
//! * [`Element`]: a value that can be an item of a list: a leaf, a mapping or a reference.
//! * [`Slot`]: the value of a key, with the rule for merging a layer with higher precedence into it.
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

/// Row of `check --explain`: a setting, its value, and the position of the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// Path of the setting, such as `gpu.pci` or `nics[0].bridge`.
    pub path: String,
    pub value: String,
    pub span: Option<crate::source::Span>,
}
