//! The inventory: YAML files that describe clusters.
//!
//! [`load::Parsed`] parses the bytes of the files, lists the further files that they refer to, and returns an
//! [`Inventory`]: clusters whose nodes have every setting resolved, each value with its position in the files, and
//! all problems at once.
//!
//! This crate is synchronous and does no I/O: the caller reads the files. It checks the inventory alone; whether
//! Proxmox has the storage that an inventory names is checked by the plan.

mod check;
mod cluster;
mod diagnostic;
mod diagnostic_code;
mod explanation;
pub mod inventory;
mod language;
pub mod load;
pub mod release;
mod source;
pub mod value;

pub use cluster::{Cluster, Inventory, Node};
pub use diagnostic::{Code, Diagnostic, Label, Severity};
pub use explanation::Explanation;
pub use language::{
    AnyName, Chain, Explained, List, OneOrMany, Setting, Shared, Spanned, Sum, Table,
};
pub use release::{RELEASES, Release};
pub use source::{Position, Source, SourceId, Sources, Span};

/// JSON schema (draft 2020-12) of the inventory files, for editors.
pub fn schema() -> serde_json::Value {
    language::schema_of::<inventory::InventoryFile>("talmox inventory")
}

/// Candidate that a word is most likely a misspelling of, if one is similar enough.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    language::closest(word, candidates)
}
