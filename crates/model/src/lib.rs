//! The inventory: YAML files that describe clusters.
//!
//! [`load::Parsed`] parses the bytes of the inventory files and lists the further files that they refer to. The result
//! is an [`Inventory`]: the clusters with all settings of their nodes resolved, the position of each value, and all
//! findings.
//!
//! This crate is synchronous and does no I/O: the caller reads the files. It checks only the inventory itself. The plan
//! checks, for example, whether Proxmox has a storage that the inventory names.

pub mod builtin_addon;
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

/// Candidate that is most similar to `word`, if one is similar enough to be meant.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    language::closest(word, candidates)
}
