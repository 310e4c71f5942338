//! Synchronization of a real API server with the store of the lab. The simulated controllers and kubelets process objects of
//! the API server in the store, and the results are written back.
//!
//! The controllers of the store run between two synchronization rounds. They process only objects that the API server has
//! accepted, because the API server fills in defaults and assigns the uid.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use talmox_clock::{Clock, Deadline};
use talmox_lab_kube::object::{condition, name, namespace};
use talmox_lab_kube::{HELD, KubeStore};

use super::RealCluster;
use super::client::Client;
use super::object_kind::{CREATED_ONCE, LEASES, NAMESPACES, NODES, ObjectKind, PODS, SYNCED};
use super::synced_object::SyncedObject;

/// Time between two rounds if nothing changes in the store, in real time.
const ROUND_INTERVAL: Duration = Duration::from_millis(500);
/// Minimum time between two rounds, in real time.
const MIN_INTERVAL: Duration = Duration::from_millis(20);
/// Kind of objects whose status the API server changes as well.
const BUDGETS: &str = "poddisruptionbudgets.policy";
/// Time after which kubelets renew their leases, in real time.
const LEASE_INTERVAL: Duration = Duration::from_secs(10);

/// Synchronizes until the future is dropped. `log` is called with the rejections of the API server.
pub(crate) async fn synchronize(
    cluster: Arc<RealCluster>,
    store: Arc<KubeStore>,
    log: impl Fn(&str),
) {
    let client = match Client::new(&cluster) {
        Ok(client) => client,
        Err(problem) => {
            log(&problem);
            return std::future::pending().await;
        }
    };
    let mut synchronizer = Synchronizer::new(client, Arc::clone(&store));
    let (mut revisions, real) = (store.revisions(), Clock::real());
    loop {
        revisions.borrow_and_update();
        // While the API server starts, the round fails. The next round retries.
        if synchronizer.round().await.is_ok() {
            store.work();
        } else if let Some(ended) = cluster.restart_ended() {
            log(&ended);
        }
        for problem in synchronizer.rejections() {
            log(&problem);
        }
        tokio::select! {
            _ = revisions.changed() => {}
            () = real.sleep(ROUND_INTERVAL) => {}
        }
        real.sleep(MIN_INTERVAL).await;
    }
}

/// Key of an object: namespace and name.
type Key = (String, String);

fn key(object: &Value) -> Key {
    (namespace(object).to_owned(), name(object).to_owned())
}

pub(super) struct Synchronizer {
    pub(super) client: Client,
    pub(super) store: Arc<KubeStore>,
    is_ready: bool,
    /// Objects that exist in the store and on the API server, by kind.
    pairs: BTreeMap<&'static str, BTreeMap<Key, SyncedObject>>,
    /// Objects that were already created once. They are not created again after a deletion.
    created: BTreeSet<(&'static str, Key)>,
    /// Time at which the leases must be renewed.
    leased: Option<Deadline>,
    /// Rejected objects, each with the reason.
    rejected: BTreeMap<(&'static str, Key), String>,
    /// Rejections that are not logged yet.
    rejections: Vec<String>,
}

impl Synchronizer {
    pub(super) fn new(client: Client, store: Arc<KubeStore>) -> Self {
        let (pairs, rejected) = (BTreeMap::new(), BTreeMap::new());
        let (created, rejections) = (BTreeSet::new(), vec![]);
        Self { client, store, is_ready: false, pairs, created, leased: None, rejected, rejections }
    }

    pub(super) async fn round(&mut self) -> Result<(), String> {
        // While the API server starts, it creates priority classes and roles. Other objects need them.
        if !self.is_ready {
            self.client.get("/readyz").await?.found()?;
            self.is_ready = true;
        }
        self.synchronize_kind(NAMESPACES).await?;
        for kind in CREATED_ONCE {
            self.create_once(kind).await?;
        }
        for kind in SYNCED {
            self.synchronize_kind(kind).await?;
        }
        self.renew_leases().await
    }

    fn rejections(&mut self) -> Vec<String> {
        std::mem::take(&mut self.rejections)
    }

    async fn synchronize_kind(&mut self, kind: ObjectKind) -> Result<(), String> {
        let remote = self.client.list(&kind.all()).await?;
        let mut remote: BTreeMap<Key, Value> =
            remote.into_iter().map(|object| (key(&object), object)).collect();
        let local = self.store.list(kind.id).into_iter();
        let mut local: BTreeMap<Key, Arc<Value>> =
            local.map(|object| (key(&object), object)).collect();
        let mut pairs = self.pairs.remove(kind.id).unwrap_or_default();
        let keys = remote.keys().chain(local.keys()).chain(pairs.keys());
        let keys: BTreeSet<Key> = keys.cloned().collect();
        let mut next = BTreeMap::new();
        let mut outcome = Ok(());
        for key in keys {
            let known = pairs.remove(&key);
            let (remote, local) = (remote.remove(&key), local.remove(&key));
            if outcome.is_err() {
                next.extend(known.map(|known| (key, known)));
                continue;
            }
            match self.synchronize_object(kind, remote, local, known.as_ref()).await {
                Ok(pair) => next.extend(pair.map(|pair| (key, pair))),
                Err(problem) => {
                    next.extend(known.map(|known| (key, known)));
                    outcome = Err(problem);
                }
            }
        }
        self.pairs.insert(kind.id, next);
        outcome
    }

    /// Synchronizes one object.
    async fn synchronize_object(
        &mut self,
        kind: ObjectKind,
        remote: Option<Value>,
        local: Option<Arc<Value>>,
        known: Option<&SyncedObject>,
    ) -> Result<Option<SyncedObject>, String> {
        match (remote, local, known) {
            (None, None, _) => Ok(None),
            (None, Some(local), None) => self.create_remote(kind, local).await,
            (None, Some(local), Some(_)) => {
                self.store.lose(kind.id, &local);
                Ok(None)
            }
            (Some(remote), None, Some(known)) if known.is_same_object(&remote) => {
                self.delete_remote(kind, &remote).await?;
                // The record is kept until the object is deleted on the API server.
                Ok(Some(known.clone()))
            }
            (Some(remote), None, _) => Ok(self.apply_remote(kind, None, &remote)),
            (Some(remote), Some(local), Some(known)) if !known.is_same_object(&remote) => {
                // The API server has another object with the same name.
                self.store.lose(kind.id, &local);
                Ok(self.apply_remote(kind, None, &remote))
            }
            (Some(remote), Some(local), known) => self.exchange(kind, remote, local, known).await,
        }
    }

    /// Creates an object of the store on the API server.
    async fn create_remote(
        &mut self,
        kind: ObjectKind,
        local: Arc<Value>,
    ) -> Result<Option<SyncedObject>, String> {
        match self.create(kind, &local).await? {
            None => {
                // The API server rejected the object. The creation is retried, and until then the controllers do not process
                // the object.
                self.store.hold(kind.id, &local);
                Ok(None)
            }
            // The status can be written only after the creation.
            Some(remote) => self.exchange(kind, remote, local, None).await,
        }
    }

    async fn create(&mut self, kind: ObjectKind, local: &Value) -> Result<Option<Value>, String> {
        let created =
            self.client.create(&kind.place(local), &without_server_fields(local)).await?.found();
        Ok(self.handle_result(kind, local, created))
    }

    /// Writes the changes of the store to the API server. Then applies the changes of the API server to the store.
    async fn exchange(
        &mut self,
        kind: ObjectKind,
        mut remote: Value,
        local: Arc<Value>,
        known: Option<&SyncedObject>,
    ) -> Result<Option<SyncedObject>, String> {
        let path = kind.path(&local);
        let can_write = kind.id != NAMESPACES.id;
        let spec_patch = known.map(|known| known.spec_patch(&local)).unwrap_or_default();
        let is_pod = kind.id == PODS.id;
        if let Some(patch) = spec_patch.filter(|_| can_write && !is_pod) {
            let changed = self.client.merge(&path, &patch).await?.found();
            remote = self.handle_result(kind, &local, changed).unwrap_or(remote);
        }
        let node = &local["spec"]["nodeName"];
        if is_pod && node.is_string() && remote["spec"]["nodeName"].is_null() {
            let target = json!({"apiVersion": "v1", "kind": "Node", "name": node});
            let binding = json!({"metadata": {"name": name(&local)}, "target": target});
            let bound = self.client.create(&format!("{path}/binding"), &binding).await?.found();
            if self.handle_result(kind, &local, bound).is_some() {
                remote = self.client.get(&path).await?.found()?;
            }
        }
        let status = match known {
            Some(known) if kind.id == BUDGETS => known.budget_patch(&remote, &local),
            _ => SyncedObject::status_patch(known, &local),
        };
        if let Some(patch) = status.filter(|_| can_write) {
            let patch = json!({"status": patch});
            let reported = self.client.merge(&format!("{path}/status"), &patch).await?.found();
            remote = self.handle_result(kind, &local, reported).unwrap_or(remote);
        }
        let is_being_deleted = |object: &Value| object["metadata"]["deletionTimestamp"].is_string();
        if is_being_deleted(&remote) && !is_being_deleted(&local) {
            self.store.end_as(kind.id, &remote);
        }
        if known.is_some_and(|known| known.is_unchanged(&remote)) {
            return Ok(Some(SyncedObject::new(&remote, local)));
        }
        let taken = self.apply_remote(kind, Some(&local), &remote);
        // If the object has changed in the store in the meantime, the next round handles the change.
        Ok(taken.or_else(|| known.map(|known| known.with(local))))
    }

    fn apply_remote(
        &self,
        kind: ObjectKind,
        seen: Option<&Value>,
        remote: &Value,
    ) -> Option<SyncedObject> {
        let local = self.store.copy_object(kind.id, seen, remote)?;
        Some(SyncedObject::new(remote, local))
    }

    /// Handles the result of a request about an object. A rejection is reported only once.
    fn handle_result(
        &mut self,
        kind: ObjectKind,
        local: &Value,
        outcome: Result<Value, String>,
    ) -> Option<Value> {
        let at = (kind.id, key(local));
        match outcome {
            Ok(object) => {
                self.rejected.remove(&at);
                Some(object)
            }
            Err(problem) => {
                // These errors come from a concurrent change. The next round handles the change.
                let is_passing = problem.starts_with("404:") || problem.starts_with("409:");
                if !is_passing && self.rejected.get(&at) != Some(&problem) {
                    let rejection =
                        format!("kube-apiserver: {} {}: {problem}", kind.id, name(local));
                    self.rejections.push(rejection);
                    self.rejected.insert(at, problem);
                }
                None
            }
        }
    }

    /// Deletes an object on the API server, because it was deleted in the store.
    async fn delete_remote(&mut self, kind: ObjectKind, remote: &Value) -> Result<(), String> {
        if kind.id == NAMESPACES.id {
            return self.delete_namespace(remote).await;
        }
        let path = kind.path(remote);
        let uid = &remote["metadata"]["uid"];
        let how = json!({
            "gracePeriodSeconds": 0,
            "propagationPolicy": "Background",
            "preconditions": {"uid": uid},
        });
        self.client.delete(&path, &how).await?;
        if remote["metadata"]["finalizers"].is_array() {
            // The finalizers are removed, because the store has already handled them.
            let patch = json!({"metadata": {"uid": uid, "finalizers": null}});
            self.client.merge(&path, &patch).await?;
        }
        Ok(())
    }

    async fn create_once(&mut self, kind: ObjectKind) -> Result<(), String> {
        let local = self.store.list(kind.id);
        let there: BTreeSet<Key> = local.iter().map(|object| key(object)).collect();
        self.created.retain(|(id, key)| *id != kind.id || there.contains(key));
        for object in local {
            let at = (kind.id, key(&object));
            if self.created.contains(&at) {
                continue;
            }
            // This check is needed because the API server does not reject the creation of every object that it created itself.
            let is_there = self.client.get(&kind.path(&object)).await?.status == 200;
            if is_there || self.create(kind, &object).await?.is_some() {
                self.created.insert(at);
            }
        }
        Ok(())
    }

    /// Renews the leases of nodes. If the kubelet of a node does not run, its lease is not renewed.
    async fn renew_leases(&mut self) -> Result<(), String> {
        if self.leased.is_some_and(|until| !until.has_passed()) {
            return Ok(());
        }
        let nodes = self.store.list(NODES.id);
        if nodes.is_empty() {
            return Ok(());
        }
        for node in nodes {
            if condition(&node, "Ready").is_none_or(|ready| ready["status"] == "Unknown") {
                continue;
            }
            let time = talmox_lab_kube::micro_time(Clock::real().since_epoch());
            let spec = json!({
                "holderIdentity": name(&node),
                "leaseDurationSeconds": 40,
                "renewTime": time,
            });
            let metadata = json!({"name": name(&node), "namespace": "kube-node-lease"});
            let lease = json!({"metadata": metadata, "spec": spec});
            let path = LEASES.path(&lease);
            if self.client.merge(&path, &json!({"spec": spec})).await?.status == 404 {
                self.create(LEASES, &lease).await?;
            }
        }
        self.leased = Some(Clock::real().deadline(LEASE_INTERVAL));
        Ok(())
    }
}

/// Object without the fields that only the API server sets.
fn without_server_fields(object: &Value) -> Value {
    let mut new = object.clone();
    if let Some(whole) = new.as_object_mut() {
        whole.shift_remove("status");
    }
    if let Some(metadata) = new["metadata"].as_object_mut() {
        for own in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
            metadata.shift_remove(own);
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.shift_remove(HELD);
        }
    }
    new
}
