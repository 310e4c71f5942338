//! Rules for creation, update and deletion that apply to all kinds.

use std::sync::Arc;

use serde_json::{Value, json};

use super::failure::Failure;
use super::kind::Kind;
use super::object;
use super::store::State;
use super::{admission, custom, defaults, label, schema, validate};

/// Part of an object that a request writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The whole object. If the kind has a status subresource, the whole object except the status.
    Main,
    Status,
}

/// Options of the deletion of an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deletion {
    pub(crate) grace: Option<u64>,
    pub(crate) propagation: Option<String>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) dry_run: bool,
}

/// Result of the deletion of an object.
#[derive(Debug)]
pub(crate) enum Deleted {
    Gone(Arc<Value>),
    Going(Arc<Value>),
}

impl State {
    /// Validates a new object and fills in its defaults, without storing it.
    pub(crate) fn prepare_new(
        &mut self,
        kind: &Kind,
        namespace: &str,
        mut new: Value,
    ) -> Result<Value, Failure> {
        validate::shape(kind, &new)?;
        drop_nulls(kind, &mut new);
        let is_inside = object::namespace(&new);
        if kind.namespaced && !is_inside.is_empty() && is_inside != namespace {
            return Err(Failure::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        let mut name = object::name(&new).to_owned();
        let prefix = object::text(&new, "/metadata/generateName").to_owned();
        if name.is_empty() && !prefix.is_empty() {
            name = format!("{prefix}{}", self.suffix());
        }
        validate::name(kind, &name)?;
        if kind.namespaced && kind.id != "events" {
            self.check_namespace(kind, &name, namespace)?;
        }
        if self.get(&kind.id, namespace, &name).is_some() {
            return Err(Failure::already_exists(kind, &name));
        }
        let (uid, now) = (self.new_uid(), self.timestamp());
        let metadata = object::metadata(&mut new);
        for key in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"] {
            metadata.remove(key);
        }
        metadata.insert("name".to_owned(), name.into());
        if kind.namespaced {
            metadata.insert("namespace".to_owned(), namespace.into());
        } else {
            metadata.remove("namespace");
        }
        metadata.insert("uid".to_owned(), uid.into());
        metadata.insert("creationTimestamp".to_owned(), now.into());
        if kind.counts_generations() {
            metadata.insert("generation".to_owned(), 1.into());
        }
        let api_version = kind.api_version(&kind.versions[0]);
        let new_map = new.as_object_mut().expect("invariant: it has metadata");
        new_map.shift_insert(0, "kind".to_owned(), kind.name.as_str().into());
        new_map.shift_insert(1, "apiVersion".to_owned(), api_version.into());
        if kind.status {
            new_map.shift_remove("status");
        }
        defaults::apply(self, kind, &mut new);
        admission::complete(self, kind, &mut new)?;
        validate::object(kind, &new)?;
        admission::check(self, kind, &new)?;
        if kind.id == "namespaces" {
            label::check_pod_security(kind, None, &new)?;
        }
        Ok(new)
    }

    fn check_namespace(&self, kind: &Kind, name: &str, namespace: &str) -> Result<(), Failure> {
        match self.get("namespaces", "", namespace) {
            None => Err(Failure::not_found(&self.kind("namespaces"), namespace)),
            Some(found) if object::is_being_deleted(found) => {
                Err(Failure::terminating(kind, name, namespace))
            }
            Some(_) => Ok(()),
        }
    }

    pub(crate) fn create(
        &mut self,
        kind: &Kind,
        namespace: &str,
        new: Value,
    ) -> Result<Arc<Value>, Failure> {
        let new = self.prepare_new(kind, namespace, new)?;
        let made = self.put(&kind.id, new);
        Ok(custom::after_write(self, kind, made))
    }

    pub(crate) fn create_inside(&mut self, id: &str, new: Value) -> Result<Arc<Value>, Failure> {
        let Some(kind) = self.kinds.get(id).cloned() else {
            return Err(Failure::no_such_resource());
        };
        let namespace = object::namespace(&new).to_owned();
        self.create(&kind, &namespace, new)
    }

    /// Validates an update and fills in its defaults, without storing it.
    pub(crate) fn prepare_update(
        &self,
        kind: &Kind,
        old: &Value,
        mut new: Value,
        part: Part,
    ) -> Result<Value, Failure> {
        validate::shape(kind, &new)?;
        drop_nulls(kind, &mut new);
        let name = object::name(old);
        let wanted_name = object::name(&new);
        if !wanted_name.is_empty() && wanted_name != name {
            return Err(Failure::bad_request(format!(
                "the name of the object ({wanted_name}) does not match the name on the URL ({name})"
            )));
        }
        let seen = object::text(&new, "/metadata/resourceVersion");
        if !seen.is_empty() && seen != object::text(old, "/metadata/resourceVersion") {
            return Err(Failure::modified(kind, name));
        }
        let uid = object::uid(&new);
        if !uid.is_empty() && uid != object::uid(old) {
            let cause = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                object::uid(old)
            );
            return Err(Failure::conflict(kind, name, &cause));
        }
        if part == Part::Status {
            let mut whole = old.clone();
            whole["status"] = new.get("status").cloned().unwrap_or_else(|| json!({}));
            for key in ["labels", "annotations"] {
                if let Some(value) = new["metadata"].get(key) {
                    object::metadata(&mut whole).insert(key.to_owned(), value.clone());
                }
            }
            schema::check_status(kind, &whole)?;
            return Ok(whole);
        }
        let map = new.as_object_mut().ok_or_else(|| Failure::bad_request("not an object"))?;
        map.insert("apiVersion".to_owned(), old["apiVersion"].clone());
        map.insert("kind".to_owned(), old["kind"].clone());
        if kind.status {
            match old.get("status") {
                Some(status) => drop(map.insert("status".to_owned(), status.clone())),
                None => drop(map.shift_remove("status")),
            }
        }
        let metadata = object::metadata(&mut new);
        for key in [
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
            "generateName",
        ] {
            match old["metadata"].get(key) {
                Some(value) => drop(metadata.insert(key.to_owned(), value.clone())),
                None => drop(metadata.shift_remove(key)),
            }
        }
        defaults::keep(kind, old, &mut new);
        validate::object(kind, &new)?;
        validate::change(kind, old, &new)?;
        if kind.id == "namespaces" {
            label::check_pod_security(kind, Some(old), &new)?;
        }
        if kind.counts_generations() && desired_state(old) != desired_state(&new) {
            let generation = object::number(old, "/metadata/generation").unwrap_or(1) + 1;
            object::metadata(&mut new).insert("generation".to_owned(), generation.into());
        }
        Ok(new)
    }

    /// Stores the result of [`Self::prepare_update`], unless it equals the old object.
    pub(crate) fn store_update(&mut self, kind: &Kind, old: &Arc<Value>, new: Value) -> Arc<Value> {
        if **old == new {
            return Arc::clone(old);
        }
        if object::is_being_deleted(&new)
            && !object::has_finalizers(&new)
            && !waits_for_end(kind, &new)
        {
            let (namespace, name) =
                (object::namespace(&new).to_owned(), object::name(&new).to_owned());
            self.put(&kind.id, new);
            return self.remove(kind, &namespace, &name).unwrap_or_else(|| Arc::clone(old));
        }
        let stored = self.put(&kind.id, new);
        custom::after_write(self, kind, stored)
    }

    /// Changes any part of an object without checking permissions.
    pub(crate) fn change(
        &mut self,
        id: &str,
        namespace: &str,
        name: &str,
        edit: impl FnOnce(&mut Value),
    ) {
        let Some(kind) = self.kinds.get(id).cloned() else { return };
        let Some(old) = self.get(id, namespace, name).cloned() else { return };
        let mut new = Value::clone(&old);
        edit(&mut new);
        if kind.counts_generations() && desired_state(&old) != desired_state(&new) {
            let generation = object::number(&old, "/metadata/generation").unwrap_or(1) + 1;
            object::metadata(&mut new).insert("generation".to_owned(), generation.into());
        }
        self.store_update(&kind, &old, new);
    }

    pub(crate) fn delete_inside(
        &mut self,
        id: &str,
        namespace: &str,
        name: &str,
    ) -> Result<(), Failure> {
        let Some(kind) = self.kinds.get(id).cloned() else {
            return Err(Failure::no_such_resource());
        };
        self.delete(&kind, namespace, name, &Deletion::default()).map(drop)
    }

    pub(crate) fn delete(
        &mut self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        how: &Deletion,
    ) -> Result<Deleted, Failure> {
        let Some(old) = self.get(&kind.id, namespace, name).cloned() else {
            return Err(Failure::not_found(kind, name));
        };
        if let Some(uid) = how.uid.as_deref().filter(|uid| *uid != object::uid(&old)) {
            let cause = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                object::uid(&old)
            );
            return Err(Failure::conflict(kind, name, &cause));
        }
        let revision = object::text(&old, "/metadata/resourceVersion");
        if how.resource_version.as_deref().is_some_and(|wanted| wanted != revision) {
            return Err(Failure::modified(kind, name));
        }
        admission::check_deletion(kind, name)?;
        if how.dry_run {
            return Ok(Deleted::Gone(old));
        }
        match how.propagation.as_deref() {
            Some("Orphan") => self.orphan_dependents(&old),
            Some("Foreground") if !object::is_being_deleted(&old) => {
                self.change(&kind.id, namespace, name, |object| {
                    let finalizers =
                        object::metadata(object).entry("finalizers").or_insert_with(|| json!([]));
                    if let Some(all) = finalizers.as_array_mut() {
                        all.push("foregroundDeletion".into());
                    }
                });
            }
            _ => {}
        }
        Ok(self.begin_deletion(kind, namespace, name, how.grace))
    }

    /// Marks an object as terminating, or removes it if it has no finalizer and no grace period.
    fn begin_deletion(
        &mut self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        grace: Option<u64>,
    ) -> Deleted {
        let old = self.get(&kind.id, namespace, name).cloned().expect("invariant: it is there");
        let grace = if kind.id == "pods" { pod_grace(&old, grace) } else { 0 };
        let is_held = object::has_finalizers(&old)
            || (kind.id == "namespaces" && !object::list(&old, "/spec/finalizers").is_empty())
            || grace > 0;
        if !is_held {
            let gone = self.remove(kind, namespace, name);
            return Deleted::Gone(gone.unwrap_or(old));
        }
        let until = self.timestamp_at(self.now + std::time::Duration::from_secs(grace));
        let shorter = object::number(&old, "/metadata/deletionGracePeriodSeconds")
            .is_none_or(|before| grace < before);
        if shorter {
            let mut new = Value::clone(&old);
            let metadata = object::metadata(&mut new);
            metadata.insert("deletionTimestamp".to_owned(), until.into());
            metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
            if kind.id == "namespaces" {
                new["status"]["phase"] = "Terminating".into();
            }
            self.put(&kind.id, new);
        }
        let now = self.get(&kind.id, namespace, name).cloned().unwrap_or(old);
        Deleted::Going(now)
    }

    /// Removes an object. For a `CustomResourceDefinition`, also removes its kind and all objects of that kind.
    pub(crate) fn remove(
        &mut self,
        kind: &Kind,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<Value>> {
        let gone = self.take(&kind.id, namespace, name)?;
        custom::after_removal(self, kind, &gone);
        Some(gone)
    }

    fn orphan_dependents(&mut self, owner: &Value) {
        let uid = object::uid(owner).to_owned();
        let ids: Vec<String> = self.kinds.iter().map(|kind| kind.id.clone()).collect();
        for id in ids {
            let owned = |object: &&Arc<Value>| {
                object::list(object, "/metadata/ownerReferences")
                    .iter()
                    .any(|owner| owner["uid"] == uid.as_str())
            };
            let orphans: Vec<Arc<Value>> = self.iter(&id).filter(owned).cloned().collect();
            for orphan in orphans {
                let (namespace, name) = (object::namespace(&orphan), object::name(&orphan));
                self.change(&id, namespace, name, |object| {
                    let owners = object.pointer_mut("/metadata/ownerReferences");
                    if let Some(owners) = owners.and_then(Value::as_array_mut) {
                        owners.retain(|owner| owner["uid"] != uid.as_str());
                    }
                });
            }
        }
    }
}

/// Removes null fields from objects of built-in kinds, for which null means the same as a missing field. Kinds whose fields
/// contain arbitrary JSON keep their null fields.
fn drop_nulls(kind: &Kind, object: &mut Value) {
    fn clean(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.retain(|_, value| !value.is_null());
                map.values_mut().for_each(clean);
            }
            Value::Array(all) => all.iter_mut().for_each(clean),
            _ => {}
        }
    }
    let holds_anything = matches!(
        kind.id.as_str(),
        "customresourcedefinitions.apiextensions.k8s.io" | "controllerrevisions.apps"
    );
    if kind.custom.is_none() && !holds_anything {
        clean(object);
    }
}

/// Fields of an object that describe its desired state: all fields except metadata and status.
fn desired_state(object: &Value) -> Vec<(&String, &Value)> {
    let all = object.as_object().into_iter().flatten();
    all.filter(|(key, _)| !matches!(key.as_str(), "metadata" | "status")).collect()
}

/// Whether the object must still exist: a pod until its kubelet has stopped it, a namespace until its finalizers are removed.
fn waits_for_end(kind: &Kind, object: &Value) -> bool {
    match kind.id.as_str() {
        "pods" => object::number(object, "/metadata/deletionGracePeriodSeconds") != Some(0),
        "namespaces" => !object::list(object, "/spec/finalizers").is_empty(),
        _ => false,
    }
}

fn pod_grace(pod: &Value, wanted: Option<u64>) -> u64 {
    let has_ended = matches!(object::text(pod, "/status/phase"), "Succeeded" | "Failed");
    if object::text(pod, "/spec/nodeName").is_empty() || has_ended {
        return 0;
    }
    let own = object::number(pod, "/spec/terminationGracePeriodSeconds").unwrap_or(30);
    wanted.unwrap_or(own)
}
