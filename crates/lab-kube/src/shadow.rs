//! A store behind which stands another API server: it takes over what that one has, and controllers
//! work on it as ever.

use std::sync::Arc;

use serde_json::Value;

use super::controller;
use super::object::{self, list, name, namespace, text, uid};
use super::store::{KubeStore, State};
use super::write::Deletion;

/// What the other API server says of an object's end. It takes its course here, by the time of the lab.
const END: [&str; 2] = ["deletionTimestamp", "deletionGracePeriodSeconds"];
/// Marks objects that are here alone.
pub const HELD: &str = "lab.talmox/held";
/// What the other API server waits for while an object ends, and what is done about it here.
const PROPAGATION: [(&str, &str); 2] = [("foregroundDeletion", "Foreground"), ("orphan", "Orphan")];

impl KubeStore {
    /// Takes over an object as the other API server has it. What is said about it here stays. Nothing
    /// happens if it is not as it was `seen` here any more.
    pub fn adopt(&self, id: &str, seen: Option<&Value>, theirs: &Value) -> Option<Arc<Value>> {
        self.with(|state| {
            let old = state.get(id, namespace(theirs), name(theirs)).cloned();
            if old.as_deref().map(revision) != seen.map(revision) {
                return None;
            }
            let kind = Arc::clone(state.kinds.get(id)?);
            let mut new = theirs.clone();
            let whole = new.as_object_mut()?;
            // Lists have them once for all.
            whole.insert("kind".to_owned(), kind.name.as_str().into());
            whole.insert("apiVersion".to_owned(), kind.api_version(&kind.versions[0]).into());
            let metadata = object::metadata(&mut new);
            metadata.shift_remove("managedFields");
            for key in END {
                metadata.shift_remove(key);
            }
            for (finalizer, _) in PROPAGATION {
                object::remove_finalizer(&mut new, finalizer);
            }
            let Some(old) = old else { return Some(state.put(id, new)) };
            for key in END.into_iter().chain(["resourceVersion"]) {
                if let Some(own) = old["metadata"].get(key) {
                    object::metadata(&mut new).insert(key.to_owned(), own.clone());
                }
            }
            // What is waited for here is not known there.
            for finalizer in list(&old, "/metadata/finalizers") {
                if PROPAGATION.iter().any(|(own, _)| finalizer == own) {
                    object::add_finalizer(&mut new, finalizer);
                }
            }
            if let Some(status) = old.get("status") {
                new["status"] = status.clone();
            }
            let stored = state.store_update(&kind, &old, new);
            if uid(&old) != uid(theirs) {
                rename_owner(state, uid(&old), uid(theirs));
            }
            Some(stored)
        })
    }

    /// The other API server does not take it: nothing comes of it here either.
    pub fn hold(&self, id: &str, refused: &Value) {
        self.change(id, namespace(refused), name(refused), |object| {
            object::entry(&mut object["metadata"], "annotations")
                .insert(HELD.to_owned(), "true".into());
        });
    }

    /// An object comes to its end here as it does there.
    pub fn end_as(&self, id: &str, theirs: &Value) {
        self.with(|state| {
            let Some(kind) = state.kinds.get(id).cloned() else { return };
            let finalizers = list(theirs, "/metadata/finalizers");
            let propagation = PROPAGATION.into_iter().find_map(|(finalizer, propagation)| {
                finalizers.iter().any(|one| one == finalizer).then(|| propagation.to_owned())
            });
            let grace = object::number(theirs, "/metadata/deletionGracePeriodSeconds");
            let how = Deletion { grace, propagation, ..Deletion::default() };
            // It may have gone by itself.
            state.delete(&kind, namespace(theirs), name(theirs), &how).ok();
        });
    }

    /// The other API server has it no more.
    pub fn lose(&self, id: &str, lost: &Value) {
        self.with(|state| {
            if let Some(kind) = state.kinds.get(id).cloned() {
                state.remove(&kind, namespace(lost), name(lost));
            }
        });
    }

    /// Lets controllers, scheduler and kubelets do what there is to do.
    pub fn work(&self) {
        self.with(controller::pass);
    }
}

fn revision(object: &Value) -> String {
    text(object, "/metadata/resourceVersion").to_owned()
}

/// What was made for an object that has another uid now.
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
