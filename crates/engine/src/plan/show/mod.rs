//! A plan for people and for programs: as text, as JSON, as a picture.

mod graph;
mod group;
mod json;
mod line;
mod svg;
mod text;

pub use graph::{dot, graph};
pub use json::json;
pub use line::{aligned, wrapped};
pub use svg::svg;
pub use text::{findings, text};
