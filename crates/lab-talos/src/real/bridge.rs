//! Keeps a real API server and the lab's store the same, where the lab's controllers and kubelets have a
//! part: what is made there is worked on here, and what comes of it is told there.
//!
//! The store's controllers work between rounds and never on what the API server has not seen: it fills
//! in defaults, and has the say about who an object is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use talmox_clock::{Clock, Deadline};
use talmox_lab_kube::object::{condition, name, namespace};
use talmox_lab_kube::{HELD, KubeStore};

use super::RealCluster;
use super::client::Client;
use super::kind::{Kind, LEASES, MADE, NAMESPACES, NODES, PODS, SHARED};
use super::pair::Pair;

/// Between two rounds if nothing happens here, in real time.
const ROUND: Duration = Duration::from_millis(500);
/// However much happens.
const SHORTEST: Duration = Duration::from_millis(20);
/// How often kubelets say that they are there, in real time.
const LEASE: Duration = Duration::from_secs(10);

/// Goes on for as long as it is not dropped. `log` is told what the API server does not take.
pub(crate) async fn tell(cluster: Arc<RealCluster>, store: Arc<KubeStore>, log: impl Fn(&str)) {
    let client = match Client::new(&cluster) {
        Ok(client) => client,
        Err(problem) => {
            log(&problem);
            return std::future::pending().await;
        }
    };
    let mut bridge = Bridge::new(client, Arc::clone(&store));
    let (mut news, real) = (store.news(), Clock::real());
    loop {
        news.borrow_and_update();
        // While it starts nobody answers, and the next round tries again.
        if bridge.round().await.is_ok() {
            store.work();
        } else if let Some(ended) = cluster.revive() {
            log(&ended);
        }
        for problem in bridge.complaints() {
            log(&problem);
        }
        tokio::select! {
            _ = news.changed() => {}
            () = real.sleep(ROUND) => {}
        }
        real.sleep(SHORTEST).await;
    }
}

/// Namespace and name.
type Key = (String, String);

fn key(object: &Value) -> Key {
    (namespace(object).to_owned(), name(object).to_owned())
}

pub(super) struct Bridge {
    pub(super) client: Client,
    pub(super) store: Arc<KubeStore>,
    is_ready: bool,
    /// Objects that both sides have, by kind.
    pairs: BTreeMap<&'static str, BTreeMap<Key, Pair>>,
    /// What was made once, and is not made again when somebody deletes it.
    made: BTreeSet<(&'static str, Key)>,
    /// Until when nobody has to say that they are there.
    leased: Option<Deadline>,
    /// What is not taken, and why.
    refused: BTreeMap<(&'static str, Key), String>,
    /// What of that has not been told yet.
    complaints: Vec<String>,
}

impl Bridge {
    pub(super) fn new(client: Client, store: Arc<KubeStore>) -> Self {
        let (pairs, refused) = (BTreeMap::new(), BTreeMap::new());
        let (made, complaints) = (BTreeSet::new(), vec![]);
        Self { client, store, is_ready: false, pairs, made, leased: None, refused, complaints }
    }

    pub(super) async fn round(&mut self) -> Result<(), String> {
        // At first it still makes what others need: classes of priority, and roles.
        if !self.is_ready {
            self.client.get("/readyz").await?.found()?;
            self.is_ready = true;
        }
        self.bring_together(NAMESPACES).await?;
        for kind in MADE {
            self.make_once(kind).await?;
        }
        for kind in SHARED {
            self.bring_together(kind).await?;
        }
        self.renew_leases().await
    }

    fn complaints(&mut self) -> Vec<String> {
        std::mem::take(&mut self.complaints)
    }

    async fn bring_together(&mut self, kind: Kind) -> Result<(), String> {
        let theirs = self.client.list(&kind.all()).await?;
        let mut theirs: BTreeMap<Key, Value> =
            theirs.into_iter().map(|object| (key(&object), object)).collect();
        let ours = self.store.list(kind.id).into_iter();
        let mut ours: BTreeMap<Key, Arc<Value>> =
            ours.map(|object| (key(&object), object)).collect();
        let mut pairs = self.pairs.remove(kind.id).unwrap_or_default();
        let keys = theirs.keys().chain(ours.keys()).chain(pairs.keys());
        let keys: BTreeSet<Key> = keys.cloned().collect();
        let mut next = BTreeMap::new();
        let mut outcome = Ok(());
        for key in keys {
            let known = pairs.remove(&key);
            let (theirs, ours) = (theirs.remove(&key), ours.remove(&key));
            if outcome.is_err() {
                next.extend(known.map(|known| (key, known)));
                continue;
            }
            match self.meet(kind, theirs, ours, known.as_ref()).await {
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

    /// One object, as it is on both sides.
    async fn meet(
        &mut self,
        kind: Kind,
        theirs: Option<Value>,
        ours: Option<Arc<Value>>,
        known: Option<&Pair>,
    ) -> Result<Option<Pair>, String> {
        match (theirs, ours, known) {
            (None, None, _) => Ok(None),
            (None, Some(ours), None) => self.make(kind, ours).await,
            (None, Some(ours), Some(_)) => {
                self.store.lose(kind.id, &ours);
                Ok(None)
            }
            (Some(theirs), None, Some(known)) if known.is_of(&theirs) => {
                self.end(kind, &theirs).await?;
                // Until it has gone.
                Ok(Some(known.clone()))
            }
            (Some(theirs), None, _) => Ok(self.take(kind, None, &theirs)),
            (Some(theirs), Some(ours), Some(known)) if !known.is_of(&theirs) => {
                // Another one of the same name.
                self.store.lose(kind.id, &ours);
                Ok(self.take(kind, None, &theirs))
            }
            (Some(theirs), Some(ours), known) => self.exchange(kind, theirs, ours, known).await,
        }
    }

    /// Makes an object of ours there.
    async fn make(&mut self, kind: Kind, ours: Arc<Value>) -> Result<Option<Pair>, String> {
        match self.create(kind, &ours).await? {
            None => {
                // It is tried again, and does not run until then.
                self.store.hold(kind.id, &ours);
                Ok(None)
            }
            // What is to be said about it, which nobody can at first.
            Some(theirs) => self.exchange(kind, theirs, ours, None).await,
        }
    }

    async fn create(&mut self, kind: Kind, ours: &Value) -> Result<Option<Value>, String> {
        let made = self.client.create(&kind.place(ours), &as_new(ours)).await?.found();
        Ok(self.taken(kind, ours, made))
    }

    /// Tells what changed here, then takes over what changed there.
    async fn exchange(
        &mut self,
        kind: Kind,
        mut theirs: Value,
        ours: Arc<Value>,
        known: Option<&Pair>,
    ) -> Result<Option<Pair>, String> {
        let path = kind.path(&ours);
        let tells = kind.id != NAMESPACES.id;
        let wishes = known.map(|known| known.wishes(&ours)).unwrap_or_default();
        let is_pod = kind.id == PODS.id;
        if let Some(patch) = wishes.filter(|_| tells && !is_pod) {
            let changed = self.client.merge(&path, &patch).await?.found();
            theirs = self.taken(kind, &ours, changed).unwrap_or(theirs);
        }
        let node = &ours["spec"]["nodeName"];
        if is_pod && node.is_string() && theirs["spec"]["nodeName"].is_null() {
            let target = json!({"apiVersion": "v1", "kind": "Node", "name": node});
            let binding = json!({"metadata": {"name": name(&ours)}, "target": target});
            let bound = self.client.create(&format!("{path}/binding"), &binding).await?.found();
            if self.taken(kind, &ours, bound).is_some() {
                theirs = self.client.get(&path).await?.found()?;
            }
        }
        if let Some(patch) = Pair::news(known, &ours).filter(|_| tells) {
            let patch = json!({"status": patch});
            let told = self.client.merge(&format!("{path}/status"), &patch).await?.found();
            theirs = self.taken(kind, &ours, told).unwrap_or(theirs);
        }
        let is_going = |object: &Value| object["metadata"]["deletionTimestamp"].is_string();
        if is_going(&theirs) && !is_going(&ours) {
            self.store.end_as(kind.id, &theirs);
        }
        if known.is_some_and(|known| known.is_same(&theirs)) {
            return Ok(Some(Pair::new(&theirs, ours)));
        }
        let taken = self.take(kind, Some(&ours), &theirs);
        // Where it changed here meanwhile, the next round sees it again.
        Ok(taken.or_else(|| known.map(|known| known.with(ours))))
    }

    fn take(&self, kind: Kind, seen: Option<&Value>, theirs: &Value) -> Option<Pair> {
        let ours = self.store.adopt(kind.id, seen, theirs)?;
        Some(Pair::new(theirs, ours))
    }

    /// What came of a request for an object. A refusal is told once.
    fn taken(&mut self, kind: Kind, ours: &Value, outcome: Result<Value, String>) -> Option<Value> {
        let at = (kind.id, key(ours));
        match outcome {
            Ok(object) => {
                self.refused.remove(&at);
                Some(object)
            }
            Err(problem) => {
                // Whoever was faster: the next round sees what they made of it.
                let is_passing = problem.starts_with("404:") || problem.starts_with("409:");
                if !is_passing && self.refused.get(&at) != Some(&problem) {
                    let complaint =
                        format!("kube-apiserver: {} {}: {problem}", kind.id, name(ours));
                    self.complaints.push(complaint);
                    self.refused.insert(at, problem);
                }
                None
            }
        }
    }

    /// What ended here ends there.
    async fn end(&mut self, kind: Kind, theirs: &Value) -> Result<(), String> {
        if kind.id == NAMESPACES.id {
            return self.end_namespace(theirs).await;
        }
        let path = kind.path(theirs);
        let uid = &theirs["metadata"]["uid"];
        let how = json!({
            "gracePeriodSeconds": 0,
            "propagationPolicy": "Background",
            "preconditions": {"uid": uid},
        });
        self.client.delete(&path, &how).await?;
        if theirs["metadata"]["finalizers"].is_array() {
            // Whatever held it held it here as well, and was done about.
            let patch = json!({"metadata": {"uid": uid, "finalizers": null}});
            self.client.merge(&path, &patch).await?;
        }
        Ok(())
    }

    async fn make_once(&mut self, kind: Kind) -> Result<(), String> {
        let ours = self.store.list(kind.id);
        let there: BTreeSet<Key> = ours.iter().map(|object| key(object)).collect();
        self.made.retain(|(id, key)| *id != kind.id || there.contains(key));
        for object in ours {
            let at = (kind.id, key(&object));
            if self.made.contains(&at) {
                continue;
            }
            // What an API server has by itself is not always refused for being there.
            let is_there = self.client.get(&kind.path(&object)).await?.status == 200;
            if is_there || self.create(kind, &object).await?.is_some() {
                self.made.insert(at);
            }
        }
        Ok(())
    }

    /// A node whose kubelet says nothing has an old lease.
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
        self.leased = Some(Clock::real().deadline(LEASE));
        Ok(())
    }
}

/// An object as it is but for what only its own API server may say.
fn as_new(object: &Value) -> Value {
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
