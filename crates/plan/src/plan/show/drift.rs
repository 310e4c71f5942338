//! Drift as text: one line for each changed object, for `status`.

use super::field::value;
use super::line::shortened;
use crate::plan::change::{Change, Class, FieldChange, Left, Object};

/// A change as a line about drift, such as `vm memory 4 GiB → 6 GiB (needs a drain)`. If `is_of_node` is set, the name of the
/// node is omitted, because the caller prints the name before the line.
pub fn drift_line(change: &Change, is_of_node: bool) -> String {
    let object = match &change.object {
        Object::Vm(_) if is_of_node => "vm".to_owned(),
        Object::Node(_) if is_of_node => "node".to_owned(),
        Object::Disk(name) if is_of_node => {
            format!("disk {}", name.split_once('/').map_or(name.as_str(), |(_, disk)| disk))
        }
        object => object.to_string(),
    };
    let difference = match change.class {
        // The fields of an object that is created or deleted as a whole do not describe the difference.
        Class::Create => " is missing".to_owned(),
        Class::Destroy => " is not in the inventory".to_owned(),
        Class::Live | Class::Reboot | Class::Drain | Class::Replace => {
            let fields: Vec<String> =
                change.fields.iter().map(|field| difference(field, change.class)).collect();
            if fields.is_empty() {
                " differs".to_owned()
            } else {
                format!(" {}", fields.join(", "))
            }
        }
    };
    let effect = match change.class {
        Class::Create | Class::Live | Class::Destroy => "",
        Class::Reboot => " (needs a restart)",
        Class::Drain => " (needs a drain)",
        Class::Replace => " (needs a replacement)",
    };
    let accepted = match (change.left, &change.note) {
        (Some(Left::Ignored), Some(reason)) => format!(" (ignored: {reason})"),
        _ => String::new(),
    };
    format!("{object}{difference}{effect}{accepted}")
}

/// The path of a field, with its values if they fit into the line.
fn difference(field: &FieldChange, class: Class) -> String {
    let values = shortened(&value(field, class));
    let has_values = field.old.is_some() || field.new.is_some();
    if has_values && !values.contains('\n') {
        format!("{} {values}", field.path)
    } else {
        field.path.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(object: Object, class: Class, fields: Vec<FieldChange>) -> Change {
        Change::planned(object, class, fields)
    }

    #[test]
    fn a_line_has_the_values_and_the_effect_of_a_change() {
        let vm = || Object::Vm("cp-1".to_owned());
        let memory =
            || vec![FieldChange::of("memory", Some(4096_u32.into()), Some(6144_u32.into()))];
        let line = "vm memory 4 GiB → 6 GiB (needs a drain)";
        assert_eq!(drift_line(&change(vm(), Class::Drain, memory()), true), line);
        let mut ignored = change(vm(), Class::Reboot, memory()).note("tested by hand");
        ignored.leave(Left::Ignored);
        assert_eq!(
            drift_line(&ignored, false),
            "vm cp-1 memory 4 GiB → 6 GiB (needs a restart) (ignored: tested by hand)"
        );
        let notes = FieldChange::new("notes", Some("a\nb".to_owned()), Some("c".to_owned()));
        assert_eq!(drift_line(&change(vm(), Class::Live, vec![notes]), true), "vm notes");
    }

    #[test]
    fn a_missing_object_and_an_orphan_have_no_fields() {
        let fields = vec![FieldChange::set("vmid", 300)];
        let vm = Object::Vm("wk-1".to_owned());
        assert_eq!(drift_line(&change(vm.clone(), Class::Create, fields), true), "vm is missing");
        let line = "vm wk-1 is not in the inventory";
        assert_eq!(drift_line(&change(vm, Class::Destroy, vec![]), false), line);
        let disk = Object::Disk("wk-1/scsi1".to_owned());
        assert_eq!(drift_line(&change(disk, Class::Create, vec![]), true), "disk scsi1 is missing");
        let addon = Object::Addon("shop".to_owned());
        assert_eq!(drift_line(&change(addon, Class::Live, vec![]), false), "add-on shop differs");
    }
}
