//! Groups of similar changes. Values that all changes of a group share are shown once; the other values are shown in a row
//! for each object.

use super::field::value;
use crate::plan::change::{Change, Object};

/// Changes of the same class to the same fields of objects of one kind.
pub(super) struct Group<'a> {
    changes: Vec<&'a Change>,
}

/// Placeholder for the parts of a value that differ between the changes of a group.
const DIFFERS: &str = "…";

/// The changes in groups. The groups are in the order of their first changes.
pub(super) fn groups<'a>(changes: impl Iterator<Item = &'a Change>) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = vec![];
    for change in changes {
        match groups.iter_mut().find(|group| is_alike(group.first(), change)) {
            Some(group) => group.changes.push(change),
            None => groups.push(Group { changes: vec![change] }),
        }
    }
    groups
}

fn is_alike(a: &Change, b: &Change) -> bool {
    let paths = |change: &Change| -> Vec<String> {
        change.fields.iter().map(|field| field.path.clone()).collect()
    };
    kind(&a.object) == kind(&b.object)
        && (a.class, &a.note, a.is_planned, a.left) == (b.class, &b.note, b.is_planned, b.left)
        && paths(a) == paths(b)
}

impl<'a> Group<'a> {
    pub(super) fn first(&self) -> &'a Change {
        self.changes[0]
    }

    pub(super) fn title(&self) -> String {
        match self.changes.as_slice() {
            [one] => one.object.to_string(),
            many => format!("{} {}", many.len(), kind(&self.first().object)),
        }
    }

    /// The fields that have the same value in all changes. A list with some common parts has a placeholder for its other
    /// parts.
    pub(super) fn shared(&self) -> Vec<(String, String)> {
        let count = self.first().fields.len();
        (0..count).filter_map(|at| Some((self.path(at), self.split(at).0?))).collect()
    }

    /// The name of each object, with the fields whose values differ between the objects.
    pub(super) fn own(&self) -> Vec<(&'a str, Vec<(String, String)>)> {
        let mut own: Vec<(&str, Vec<(String, String)>)> =
            self.changes.iter().map(|change| (name(&change.object), vec![])).collect();
        for at in 0..self.first().fields.len() {
            let cells = self.split(at).1;
            for (row, cell) in own.iter_mut().zip(cells) {
                row.1.push((self.path(at), cell));
            }
        }
        own
    }

    fn path(&self, at: usize) -> String {
        self.first().fields[at].path.clone()
    }

    /// The common value of a field, and the part that each object shows in its row. That part is the whole value, nothing, or
    /// the differing parts of a comma-separated list.
    fn split(&self, at: usize) -> (Option<String>, Vec<String>) {
        let values: Vec<String> =
            self.changes.iter().map(|change| value(&change.fields[at], change.class)).collect();
        if values.iter().all(|value| *value == values[0]) {
            return (Some(values[0].clone()), vec![]);
        }
        let lists: Vec<Vec<&str>> = values.iter().map(|value| value.split(',').collect()).collect();
        let is_new = self.changes.iter().all(|change| change.fields[at].old.is_none());
        let is_same = |part: usize| lists.iter().all(|list| list[part] == lists[0][part]);
        let is_list = lists.iter().all(|list| list.len() == lists[0].len());
        if !is_new || !is_list || !(0..lists[0].len()).any(is_same) {
            return (None, values);
        }
        let parts = 0..lists[0].len();
        let common: Vec<&str> = parts
            .clone()
            .map(|part| if is_same(part) { lists[0][part] } else { DIFFERS })
            .collect();
        let own = lists.iter().map(|list| {
            let own: Vec<&str> =
                parts.clone().filter(|part| !is_same(*part)).map(|part| list[part]).collect();
            own.join(",")
        });
        (Some(common.join(",")), own.collect())
    }
}

/// The plural name of the kind of an object.
fn kind(object: &Object) -> &'static str {
    match object {
        Object::File(_) => "files",
        Object::Vm(_) => "vms",
        Object::Disk(_) => "disks",
        Object::Node(_) => "nodes",
        Object::Image(_) => "images",
        Object::Mapping(_) => "mappings",
        Object::Addon(_) => "add-ons",
        Object::Cluster(_) => "clusters",
    }
}

fn name(object: &Object) -> &str {
    match object {
        Object::File(name)
        | Object::Vm(name)
        | Object::Disk(name)
        | Object::Node(name)
        | Object::Image(name)
        | Object::Mapping(name)
        | Object::Addon(name)
        | Object::Cluster(name) => name,
    }
}
