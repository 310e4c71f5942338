//! Garbage collector: deletes objects whose owners were deleted.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::object::{self, list, name, namespace, text, uid};
use crate::store::State;
use crate::write::Deletion;

const FOREGROUND: &str = "foregroundDeletion";

pub(super) fn pass(state: &mut State) {
    let ids: Vec<String> = state.kinds.iter().map(|kind| kind.id.clone()).collect();
    let all = |state: &State| -> Vec<(String, Arc<Value>)> {
        let of_kind = |id: &String| {
            let id = id.clone();
            state.all(&id).into_iter().map(move |object| (id.clone(), object))
        };
        ids.iter().flat_map(of_kind).collect()
    };
    let objects = all(state);
    let owned: Vec<_> = objects
        .iter()
        .filter(|(_, object)| !list(object, "/metadata/ownerReferences").is_empty())
        .collect();
    let waits = |object: &Value| {
        object::is_being_deleted(object)
            && list(object, "/metadata/finalizers").iter().any(|name| name == FOREGROUND)
    };
    let living: BTreeSet<&str> = objects.iter().map(|(_, object)| uid(object)).collect();
    let waiting: BTreeSet<&str> =
        objects.iter().filter(|(_, object)| waits(object)).map(|(_, object)| uid(object)).collect();
    for (id, object) in &owned {
        let owners = list(object, "/metadata/ownerReferences").iter();
        let is_abandoned = owners
            .map(|owner| text(owner, "/uid"))
            .all(|owner| !living.contains(owner) || waiting.contains(owner));
        if !is_abandoned || object::is_being_deleted(object) {
            continue;
        }
        // With foreground deletion, an owner is deleted after its dependents, which are deleted after their own dependents.
        let owners = list(object, "/metadata/ownerReferences").iter();
        let is_awaited = owners.map(|owner| text(owner, "/uid")).any(|uid| waiting.contains(uid));
        let has_dependents = owned.iter().any(|(_, other)| {
            let mut owners = list(other, "/metadata/ownerReferences").iter();
            owners.any(|owner| text(owner, "/uid") == uid(object))
        });
        let foreground = (is_awaited && has_dependents).then(|| "Foreground".to_owned());
        let how = Deletion { propagation: foreground, ..Deletion::default() };
        if let Some(kind) = state.kinds.get(id).cloned() {
            // The object may have been deleted since it was listed, so an error here is ignored.
            state.delete(&kind, namespace(object), name(object), &how).ok();
        }
    }
    for (id, owner) in objects.iter().filter(|(_, object)| waits(object)) {
        let blocks = |(id, object): &&&(String, Arc<Value>)| {
            let mut owners = list(object, "/metadata/ownerReferences").iter();
            owners.any(|reference| text(reference, "/uid") == uid(owner))
                && state.get(id, namespace(object), name(object)).is_some()
        };
        if owned.iter().find(blocks).is_none() {
            state.change(id, namespace(owner), name(owner), |owner| {
                object::remove_finalizer(owner, FOREGROUND);
            });
        }
    }
}
