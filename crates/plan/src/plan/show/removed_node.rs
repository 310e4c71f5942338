//! Removed nodes in the text of a plan: a plan has one change for the VM of the node and one for its entries in etcd and
//! Kubernetes, and the text shows both as one.

use std::borrow::Cow;

use crate::plan::change::{Change, Class, FieldChange, Object};

/// The changes, with one change for each removed node.
pub(super) fn merged<'a>(changes: impl Iterator<Item = &'a Change>) -> Vec<Cow<'a, Change>> {
    let all: Vec<&'a Change> = changes.collect();
    let (removals, others): (Vec<&'a Change>, Vec<&'a Change>) =
        all.iter().copied().partition(|change| change.class == Class::Destroy);
    if removals.is_empty() {
        return others.into_iter().map(Cow::Borrowed).collect();
    }
    let is_shown_with_vm = |change: &Change| {
        change.class == Class::Destroy && removals.iter().any(|vm| is_entry_of(change, vm))
    };
    let with_entries = |change: &'a Change| {
        let entries = removals.iter().filter(|entry| is_entry_of(entry, change));
        let fields: Vec<FieldChange> =
            entries.flat_map(|entry| entry.fields.iter().cloned()).collect();
        if fields.is_empty() {
            return Cow::Borrowed(change);
        }
        let mut whole = change.clone();
        whole.fields.extend(fields);
        Cow::Owned(whole)
    };
    all.into_iter().filter(|change| !is_shown_with_vm(change)).map(with_entries).collect()
}

/// Whether `entry` is about the entries in etcd and Kubernetes of the node whose VM `vm` deletes.
fn is_entry_of(entry: &Change, vm: &Change) -> bool {
    let is_of_node = match (&entry.object, &vm.object) {
        (Object::Node(node), Object::Vm(name)) => node == name,
        _ => false,
    };
    is_of_node && (entry.class, entry.is_planned, entry.left) == (vm.class, vm.is_planned, vm.left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::change::Left;

    fn removed(object: Object, path: &str) -> Change {
        let fields = vec![FieldChange::new(path, Some("x".to_owned()), None)];
        Change::left(object, Class::Destroy, fields, Left::NeedsConsent)
    }

    #[test]
    fn a_removed_node_is_one_change() {
        let [vm, node] = [Object::Vm, Object::Node].map(|object| object("wk-1".to_owned()));
        let other = removed(Object::Node("cp-9".to_owned()), "etcd");
        let mut created = removed(Object::Vm("cp-9".to_owned()), "vmid");
        created.class = Class::Create;
        let changes = [removed(vm, "vmid"), created, removed(node, "kubernetes"), other];
        let merged = merged(changes.iter());
        let shown: Vec<(String, Vec<&str>)> = merged
            .iter()
            .map(|change| {
                let paths = change.fields.iter().map(|field| field.path.as_str()).collect();
                (change.object.to_string(), paths)
            })
            .collect();
        let expected = [
            ("vm wk-1".to_owned(), vec!["vmid", "kubernetes"]),
            ("vm cp-9".to_owned(), vec!["vmid"]),
            ("node cp-9".to_owned(), vec!["etcd"]),
        ];
        assert_eq!(shown, expected);
    }
}
