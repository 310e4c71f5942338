//! Patches of machine configs, in a file or inline.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use talmox_yaml::{Node, Style};

use super::FilePath;
use crate::language::{Context, Element, Explained, Schemas};
use crate::source::Span;

/// Patch of a machine config. It is not interpreted here: scalars keep their text. The nodes that get an inline patch
/// share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Patch {
    /// File beside the inventory.
    File(FilePath),
    /// Mapping (strategic merge) or list of operations (JSON6902).
    Inline(Arc<Node>),
    /// Text of a patch, in a block scalar.
    Text(String),
}

impl Element for Patch {
    const MAY_STAND_ALONE: bool = true;

    fn decode(value: &Node, cx: &mut Context<'_>) -> Option<Self> {
        let Some(scalar) = value.as_scalar() else {
            return Some(Self::Inline(Arc::new(value.clone())));
        };
        let is_block = matches!(scalar.style, Style::Literal | Style::Folded);
        // The same rule as talosctl's: a file name does not start with `{` or `[`.
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
