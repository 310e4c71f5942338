//! Text of a changed field.

use crate::plan::change::{Class, FieldChange};

/// The text of a field. A destroyed value is shown as it was.
pub(super) fn value(field: &FieldChange, class: Class) -> String {
    match (&field.old, &field.new) {
        (None, Some(new)) => new.clone(),
        (Some(old), None) if class == Class::Destroy => old.clone(),
        (old, new) => {
            let shown = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
            format!("{} → {}", shown(old), shown(new))
        }
    }
}
