//! Patches of machine configs, in a file or inline.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use talmox_yaml::{Node, Style};

use super::FilePath;
use crate::language::{Context, Element, Explained, Schemas};
use crate::source::Span;

/// Patch of a machine config. This crate does not interpret it, so scalars keep their text. All nodes with the same
/// inline patch share one copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Patch {
    /// Path of a file, relative to the inventory.
    File(FilePath),
    /// Inline patch: a mapping (strategic merge) or a list of operations (JSON6902).
    Inline(Arc<Node>),
    /// Text of a patch: a block scalar, or another scalar that has several lines or starts with `{` or `[`.
    Text(String),
}

impl Element for Patch {
    const MAY_STAND_ALONE: bool = true;

    fn decode(value: &Node, cx: &mut Context<'_>) -> Option<Self> {
        let Some(scalar) = value.as_scalar() else {
            return Some(Self::Inline(Arc::new(value.clone())));
        };
        let is_block = matches!(scalar.style, Style::Literal | Style::Folded);
        // talosctl has the same rule: a file name does not start with `{` or `[`.
        if is_block || scalar.text.contains('\n') || scalar.text.starts_with(['{', '[']) {
            return Some(Self::Text(scalar.text.clone()));
        }
        FilePath::decode(value, cx).map(Self::File)
    }

    fn schema(_: &mut Schemas) -> Json {
        json!({ "type": ["string", "object", "array"] })
    }

    fn explain(&self, path: &str, span: Option<Span>, out: &mut Vec<Explained>) {
        let value = match self {
            Self::File(file) => file.0.clone(),
            Self::Inline(_) | Self::Text(_) => "(inline)".to_owned(),
        };
        out.push(Explained { path: path.to_owned(), value, span });
    }
}
