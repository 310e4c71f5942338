//! The inventory: one set of YAML files that says what a cluster is.
//!
//! [`load::Parsed`] takes the bytes of the files, says which further files they name, and gives
//! back an [`Inventory`]: clusters whose nodes have every setting resolved, each value with the
//! place it came from, and everything that is wrong with it in one go.
//!
//! This crate is sync and does no I/O: the caller reads files. It knows nothing about what the
//! settings are used for; whether a Proxmox has the storage that an inventory names is found out
//! elsewhere.

mod check;
mod cluster;
mod diagnostic;
pub mod inventory;
mod language;
pub mod load;
pub mod release;
mod source;
pub mod value;

pub use cluster::{Cluster, Inventory, Node};
pub use diagnostic::{Code, Diagnostic, Label, Severity};
pub use language::{
    AnyName, Chain, Explained, List, OneOrMany, Setting, Shared, Spanned, Sum, Table,
};
pub use release::{RELEASES, Release};
pub use source::{Position, Source, SourceId, Sources, Span};

/// The JSON schema (draft 2020-12) of the inventory's files, for editors.
pub fn schema() -> serde_json::Value {
    language::schema_of::<inventory::InventoryFile>("talmox inventory")
}

/// The candidate that a word is most likely a misspelling of, if any is near.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    language::closest(word, candidates)
}
