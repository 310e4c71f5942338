//! Text of a changed field.

use crate::plan::change::{Class, FieldChange};
use crate::plan::field_value::FieldValue;
use crate::plan::memory_text::memory_text;

/// The text of a field: its new value, or the old and the new value. A deleted object is shown with its old value.
pub(super) fn value(field: &FieldChange, class: Class) -> String {
    let shown = |value: &FieldValue| match value {
        FieldValue::Number(mib) if is_memory(&field.path) => memory_text(*mib),
        value => value.to_string(),
    };
    match (&field.old, &field.new) {
        (None, Some(new)) => shown(new),
        (Some(old), None) if class == Class::Destroy => shown(old),
        (old, new) => {
            let or_none = |value: &Option<FieldValue>| {
                value.as_ref().map_or_else(|| "none".to_owned(), shown)
            };
            format!("{} → {}", or_none(old), or_none(new))
        }
    }
}

/// Whether the field is an option of a VM with an amount of memory in MiB.
fn is_memory(path: &str) -> bool {
    matches!(path, "memory" | "balloon")
}
