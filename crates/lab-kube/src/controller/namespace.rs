//! Namespace controller: creates the default objects of a namespace, and deletes the content of a terminating namespace.

use serde_json::json;

use crate::object::{self, name, namespace};
use crate::store::State;

pub(super) fn pass(state: &mut State) {
    for space in state.all("namespaces") {
        if object::is_being_deleted(&space) {
            empty(state, name(&space));
        } else {
            add_default_objects(state, name(&space));
        }
    }
}

fn add_default_objects(state: &mut State, space: &str) {
    let metadata = |name: &str| json!({"name": name, "namespace": space});
    if state.get("serviceaccounts", space, "default").is_none() {
        // The creation cannot fail, because the namespace was listed while the same lock was held.
        state.create_inside("serviceaccounts", json!({"metadata": metadata("default")})).ok();
    }
    if state.get("configmaps", space, "kube-root-ca.crt").is_none() {
        let authority = state.settings.authority.clone();
        let map = json!({"metadata": metadata("kube-root-ca.crt"), "data": {"ca.crt": authority}});
        state.create_inside("configmaps", map).ok();
    }
}

fn empty(state: &mut State, space: &str) {
    let kinds = state.kinds.iter().filter(|kind| kind.namespaced);
    let ids: Vec<String> = kinds.map(|kind| kind.id.clone()).collect();
    let mut is_empty = true;
    for id in ids {
        let left: Vec<_> = state.in_namespace(&id, space).cloned().collect();
        for object in left {
            if !object::is_being_deleted(&object) {
                state.delete_inside(&id, namespace(&object), name(&object)).ok();
            }
        }
        is_empty &= state.in_namespace(&id, space).next().is_none();
    }
    if is_empty {
        state.change("namespaces", "", space, |space| {
            object::entry(space, "spec").shift_remove("finalizers");
        });
    }
}
