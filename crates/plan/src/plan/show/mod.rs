//! Output of a plan: text, JSON, graph and SVG.

mod drift;
mod effect;
mod field;
mod graph;
mod group;
mod json;
mod left;
mod line;
mod removed_node;
mod svg;
mod text;

pub use drift::drift_line;
pub use graph::{dot, graph};
pub use json::json;
pub use left::left;
pub(crate) use left::open_changes;
pub use line::{aligned, wrapped};
pub use svg::svg;
pub use text::{count_findings, findings, text};
