//! Text of a changed field.

use crate::plan::change::{Class, FieldChange};
use crate::plan::field_value::FieldValue;

/// The text of a field: its new value, or the old and the new value. A deleted object is shown with its old value.
pub(super) fn value(field: &FieldChange, class: Class) -> String {
    // The memory of a new VM is shown with its unit. A changed option is shown as Proxmox spells it.
    let unit = if class == Class::Create && field.path == "memory" { " MiB" } else { "" };
    match (&field.old, &field.new) {
        (None, Some(new)) => format!("{new}{unit}"),
        (Some(old), None) if class == Class::Destroy => old.to_string(),
        (old, new) => {
            let shown = |value: &Option<FieldValue>| {
                value.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string)
            };
            format!("{} → {}", shown(old), shown(new))
        }
    }
}
