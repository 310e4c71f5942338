//! Differences that the inventory accepts (`ignore:`).

use super::builder::Builder;
use crate::plan::{Change, Class, FieldChange, Left, Object};

/// Note about a config that differs in accepted paths and in other paths. Talos replaces a config as a whole, so the accepted
/// differences would be lost.
pub(super) const WHOLE_CONFIG: &str = "the config also differs in paths that `ignore:` accepts, and Talos takes a config as a whole: \
     add the accepted values to `patches:` and remove the entry of `ignore:`";

/// The reason why the inventory accepts a difference of this field. None if the inventory does not accept the difference.
///
/// `object` is the VM, a disk or the node. `path` is the field, as the plan shows it: a VM option such as `memory`, or a path
/// in the machine config such as `machine.sysctls`. A path in `ignore:` also covers the fields below that path.
pub(super) fn reason(
    builder: &Builder<'_>,
    node: &str,
    object: &Object,
    path: &str,
) -> Option<String> {
    let slot = match object {
        Object::Disk(name) => name.split('/').nth(1),
        _ => None,
    };
    let covers = |ignored: &str| {
        [Some(path), slot].into_iter().flatten().any(|path| is_at_or_below(path, ignored))
    };
    let ignored = &builder.desired.node(node)?.ignored;
    ignored.iter().find(|one| covers(&one.path)).map(|one| one.reason.clone())
}

/// Whether the inventory accepts the difference of this field. If so, the difference is reported as a change that no step
/// makes.
pub(super) fn leave(
    builder: &mut Builder<'_>,
    node: &str,
    object: &Object,
    class: Class,
    field: &FieldChange,
) -> bool {
    let Some(reason) = reason(builder, node, object, &field.path) else { return false };
    let change = Change::left(object.clone(), class, vec![field.clone()], Left::Ignored);
    builder.changes.push(change.note(reason));
    true
}

/// Removes the differences that the inventory accepts from `fields`. Returns whether any field was removed.
pub(super) fn take(
    builder: &mut Builder<'_>,
    node: &str,
    object: &Object,
    class: impl Fn(&FieldChange) -> Class,
    fields: &mut Vec<FieldChange>,
) -> bool {
    let before = fields.len();
    fields.retain(|field| !leave(builder, node, object, class(field), field));
    fields.len() < before
}

fn is_at_or_below(path: &str, ignored: &str) -> bool {
    let rest = path.strip_prefix(ignored);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[', '/']))
}

#[cfg(test)]
mod tests {
    use super::is_at_or_below;

    #[test]
    fn a_path_covers_what_is_below_it_and_nothing_else() {
        for (path, ignored, expected) in [
            ("memory", "memory", true),
            ("memory", "mem", false),
            ("net1", "net", false),
            ("machine.sysctls.vm", "machine.sysctls", true),
            ("machine.files[0].path", "machine.files", true),
            ("machine.filesystem", "machine.files", false),
            ("UserVolumeConfig/data.name", "UserVolumeConfig", true),
        ] {
            assert_eq!(is_at_or_below(path, ignored), expected, "{path}, {ignored}");
        }
    }
}
