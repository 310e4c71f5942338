//! Store that mirrors another API server. The store copies the objects of that server, and the controllers of the lab work on
//! the copies.

use std::sync::Arc;

use serde_json::Value;

use super::controller;
use super::object::{self, list, name, namespace, text, uid};
use super::store::{KubeStore, State};
use super::write::Deletion;

/// Deletion fields of the other API server. They are not copied, because a deletion in the lab takes lab time.
const DELETION_FIELDS: [&str; 2] = ["deletionTimestamp", "deletionGracePeriodSeconds"];
/// Annotation of objects that exist only in the lab.
pub const HELD: &str = "lab.talmox/held";
/// Finalizers that the other API server sets for a deletion, each with the propagation policy for the deletion in the lab.
const PROPAGATION: [(&str, &str); 2] = [("foregroundDeletion", "Foreground"), ("orphan", "Orphan")];

impl KubeStore {
    /// Copies an object of the other API server. The status of the copy stays as the lab wrote it. Does nothing if the copy has
    /// changed since `seen`.
    pub fn copy_object(
        &self,
        id: &str,
        seen: Option<&Value>,
        original: &Value,
    ) -> Option<Arc<Value>> {
        self.with(|state| {
            let old = state.get(id, namespace(original), name(original)).cloned();
            if old.as_deref().map(revision) != seen.map(revision) {
                return None;
            }
            let kind = Arc::clone(state.kinds.get(id)?);
            let mut new = original.clone();
            let whole = new.as_object_mut()?;
            // The items of a list response have no `apiVersion` and no `kind`.
            whole.insert("kind".to_owned(), kind.name.as_str().into());
            whole.insert("apiVersion".to_owned(), kind.api_version(&kind.versions[0]).into());
            let metadata = object::metadata(&mut new);
            metadata.shift_remove("managedFields");
            for key in DELETION_FIELDS {
                metadata.shift_remove(key);
            }
            for (finalizer, _) in PROPAGATION {
                object::remove_finalizer(&mut new, finalizer);
            }
            let Some(old) = old else { return Some(state.put(id, new)) };
            for key in DELETION_FIELDS.into_iter().chain(["resourceVersion"]) {
                if let Some(own) = old["metadata"].get(key) {
                    object::metadata(&mut new).insert(key.to_owned(), own.clone());
                }
            }
            // The other API server does not have the finalizers that the lab set, so they are kept.
            for finalizer in list(&old, "/metadata/finalizers") {
                if PROPAGATION.iter().any(|(own, _)| finalizer == own) {
                    object::add_finalizer(&mut new, finalizer);
                }
            }
            if let Some(status) = old.get("status") {
                new["status"] = status.clone();
            }
            let stored = state.store_update(&kind, &old, new);
            if uid(&old) != uid(original) {
                rename_owner(state, uid(&old), uid(original));
            }
            Some(stored)
        })
    }

    /// Marks an object that the other API server rejected. The object then exists only in the lab.
    pub fn hold(&self, id: &str, rejected: &Value) {
        self.change(id, namespace(rejected), name(rejected), |object| {
            object::entry(&mut object["metadata"], "annotations")
                .insert(HELD.to_owned(), "true".into());
        });
    }

    /// Starts the deletion of an object with the propagation policy that the other API server uses.
    pub fn end_as(&self, id: &str, original: &Value) {
        self.with(|state| {
            let Some(kind) = state.kinds.get(id).cloned() else { return };
            let finalizers = list(original, "/metadata/finalizers");
            let propagation = PROPAGATION.into_iter().find_map(|(finalizer, propagation)| {
                finalizers.iter().any(|one| one == finalizer).then(|| propagation.to_owned())
            });
            let grace = object::number(original, "/metadata/deletionGracePeriodSeconds");
            let how = Deletion { grace, propagation, ..Deletion::default() };
            // The object may already be deleted, so an error here is ignored.
            state.delete(&kind, namespace(original), name(original), &how).ok();
        });
    }

    /// Removes an object that the other API server no longer has.
    pub fn lose(&self, id: &str, lost: &Value) {
        self.with(|state| {
            if let Some(kind) = state.kinds.get(id).cloned() {
                state.remove(&kind, namespace(lost), name(lost));
            }
        });
    }

    /// Runs the controllers, the scheduler and the kubelets once.
    pub fn work(&self) {
        self.with(controller::pass);
    }
}

fn revision(object: &Value) -> String {
    text(object, "/metadata/resourceVersion").to_owned()
}

/// Changes the owner references from the old uid of an object to its new uid.
fn rename_owner(state: &mut State, old: &str, new: &str) {
    let ids: Vec<String> = state.kinds.iter().map(|kind| kind.id.clone()).collect();
    for id in ids {
        let is_owned = |object: &&Arc<Value>| {
            list(object, "/metadata/ownerReferences").iter().any(|owner| owner["uid"] == old)
        };
        let owned: Vec<Arc<Value>> = state.iter(&id).filter(is_owned).cloned().collect();
        for object in owned {
            state.change(&id, namespace(&object), name(&object), |object| {
                let owners = object.pointer_mut("/metadata/ownerReferences");
                for owner in owners.and_then(Value::as_array_mut).into_iter().flatten() {
                    if owner["uid"] == old {
                        owner["uid"] = new.into();
                    }
                }
            });
        }
    }
}
