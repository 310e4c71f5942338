//! Store of all objects of a cluster, with the recent changes that watchers need.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use talmox_clock::{Chance, Clock};
use talmox_talos_config::time::UnixTime;
use tokio::sync::watch;

use super::broken_budget::{BrokenBudget, BudgetObservers};
use super::controller::{Machines, disruption};
use super::failure::Failure;
use super::kind::{Kind, Kinds};
use super::object;
use super::security::PodSecurity;

/// Number of changes of one kind that are kept for watchers. A watch from an earlier revision is answered with 410.
const HISTORY_LENGTH: usize = 1000;

/// Settings of a new simulated Kubernetes cluster.
#[derive(Clone, Debug)]
pub struct KubeSettings {
    pub clock: Clock,
    /// Source of random ids, names and jitter.
    pub chance: Chance,
    /// Average time from the scheduling of a pod until the pod runs; zero if pods run immediately.
    pub pod_start: Duration,
    /// First three bytes of service addresses.
    pub service_network: [u8; 3],
    /// First two bytes of pod addresses. Every node gets a /24 of this network.
    pub pod_network: [u8; 2],
    /// PEM of the cluster CA, for the ConfigMap `kube-root-ca.crt` of each namespace.
    pub authority: String,
}

/// Object store of a cluster, shared by all its API servers.
#[derive(Debug)]
pub struct KubeStore {
    state: Mutex<State>,
    revisions: watch::Sender<u64>,
    budget_observers: BudgetObservers,
    pub(crate) clock: Clock,
}

impl KubeStore {
    pub fn new(settings: KubeSettings) -> Arc<Self> {
        let store = Self::empty(settings);
        store.with(super::bootstrap::fill);
        store
    }

    /// Creates a store without the bootstrap objects.
    pub(super) fn empty(settings: KubeSettings) -> Arc<Self> {
        let clock = settings.clock;
        let state = State {
            kinds: Kinds::default(),
            kind_stores: BTreeMap::new(),
            revision: 1,
            made: 0,
            chance: settings.chance.clone(),
            now: clock.since_epoch(),
            machines: Machines::default(),
            pod_security: None,
            warnings: vec![],
            settings,
        };
        let revision = state.revision;
        Arc::new(Self {
            state: Mutex::new(state),
            revisions: watch::channel(revision).0,
            budget_observers: BudgetObservers::default(),
            clock,
        })
    }

    /// Calls `act` with exclusive access to the objects, and notifies watchers if an object changed.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        state.now = self.clock.since_epoch();
        let before = state.revision;
        let result = act(&mut state);
        let after = state.revision;
        let is_observed = after != before && !self.budget_observers.is_empty();
        let broken = if is_observed { disruption::broken_since(&state, before) } else { vec![] };
        drop(state);
        if after != before {
            self.revisions.send_replace(after);
        }
        for one in &broken {
            self.budget_observers.notify(one);
        }
        result
    }

    /// Calls `observer` for every eviction or deletion of a pod that leaves a PodDisruptionBudget with too few healthy pods.
    pub fn observe_budgets(&self, observer: impl Fn(&BrokenBudget) + Send + Sync + 'static) {
        self.budget_observers.add(observer);
    }

    /// Locks the state, even if another request panicked while it held the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Channel that sends the revision after each change.
    pub fn revisions(&self) -> watch::Receiver<u64> {
        self.revisions.subscribe()
    }

    /// Revision of the newest change.
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    pub fn settings(&self) -> KubeSettings {
        self.lock().settings.clone()
    }

    /// Size of all objects in bytes.
    pub fn size(&self) -> u64 {
        let everything = self.lock().everything();
        let sizes = everything.values().flatten().map(|object| object.to_string().len() as u64);
        sizes.sum()
    }

    /// Current object. `id` is the id of the kind, such as `pods` or `deployments.apps`. The namespace is empty for
    /// cluster-scoped kinds.
    pub fn get(&self, id: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.with(|state| state.get(id, namespace, name).cloned())
    }

    /// All objects of a kind.
    pub fn list(&self, id: &str) -> Vec<Arc<Value>> {
        self.with(|state| state.iter(id).cloned().collect())
    }

    /// Creates an object without checking permissions.
    pub fn create(&self, id: &str, object: Value) -> Result<Arc<Value>, Failure> {
        self.with(|state| state.create_inside(id, object))
    }

    /// Changes an object. Does nothing if the object does not exist or the edit changes nothing.
    pub fn change(&self, id: &str, namespace: &str, name: &str, edit: impl FnOnce(&mut Value)) {
        self.with(|state| state.change(id, namespace, name, edit));
    }

    /// Deletes an object like `kubectl delete --wait=false`: finalizers and grace periods apply.
    pub fn delete(&self, id: &str, namespace: &str, name: &str) -> Result<(), Failure> {
        self.with(|state| state.delete_inside(id, namespace, name))
    }
}

/// Objects and recent changes of one kind.
#[derive(Debug, Default)]
pub(crate) struct KindStore {
    pub(crate) objects: BTreeMap<(String, String), Arc<Value>>,
    pub(crate) history: VecDeque<Change>,
    /// Newest revision whose change was removed from the history.
    pub(crate) forgotten: u64,
}

/// Change of a stored object, kept for watchers.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) before: Option<Arc<Value>>,
    /// Object after the change. For a deletion, the object before the deletion.
    pub(crate) after: Arc<Value>,
    pub(crate) gone: bool,
}

/// State behind the lock of a [`KubeStore`].
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) kinds: Kinds,
    kind_stores: BTreeMap<String, KindStore>,
    pub(crate) revision: u64,
    made: u64,
    chance: Chance,
    /// Current lab time since 1970.
    pub(crate) now: Duration,
    pub(crate) machines: Machines,
    /// PodSecurity config; `None` if another API server admits the pods.
    pub(crate) pod_security: Option<PodSecurity>,
    /// Warnings to send with the answer to the current request.
    pub(crate) warnings: Vec<String>,
    pub(crate) settings: KubeSettings,
}

impl State {
    pub(crate) fn timestamp(&self) -> String {
        self.timestamp_at(self.now)
    }

    pub(crate) fn timestamp_at(&self, time: Duration) -> String {
        UnixTime::from_seconds(i64::try_from(time.as_secs()).unwrap_or(i64::MAX)).to_string()
    }

    pub(crate) fn kind(&self, id: &str) -> Arc<Kind> {
        Arc::clone(self.kinds.get(id).expect("invariant: the kind is a built-in one"))
    }

    pub(crate) fn kind_store(&self, id: &str) -> Option<&KindStore> {
        self.kind_stores.get(id)
    }

    pub(crate) fn get(&self, id: &str, namespace: &str, name: &str) -> Option<&Arc<Value>> {
        self.kind_stores.get(id)?.objects.get(&(namespace.to_owned(), name.to_owned()))
    }

    pub(crate) fn iter(&self, id: &str) -> impl Iterator<Item = &Arc<Value>> {
        self.kind_stores.get(id).into_iter().flat_map(|kind_store| kind_store.objects.values())
    }

    /// All objects of a kind, as a copy, so that a controller can change objects during the iteration.
    pub(crate) fn all(&self, id: &str) -> Vec<Arc<Value>> {
        self.iter(id).cloned().collect()
    }

    pub(crate) fn in_namespace(
        &self,
        id: &str,
        namespace: &str,
    ) -> impl Iterator<Item = &Arc<Value>> {
        let start = (namespace.to_owned(), String::new());
        let objects = self.kind_stores.get(id).map(|kind_store| kind_store.objects.range(start..));
        let inside = objects.into_iter().flatten();
        inside.take_while(move |((ns, _), _)| ns == namespace).map(|(_, object)| object)
    }

    /// All objects of all kinds.
    pub(super) fn everything(&self) -> BTreeMap<String, Vec<Arc<Value>>> {
        let all = self.kind_stores.iter();
        all.map(|(id, kind_store)| (id.clone(), kind_store.objects.values().cloned().collect()))
            .collect()
    }

    pub(super) fn made(&self) -> u64 {
        self.made
    }

    /// Restores a saved object without a new revision and without notifying watchers.
    pub(super) fn restore_object(&mut self, id: &str, object: Arc<Value>) {
        let key = (object::namespace(&object).to_owned(), object::name(&object).to_owned());
        self.kind_stores.entry(id.to_owned()).or_default().objects.insert(key, object);
    }

    /// Sets the revision and the counter to those of a saved cluster. Earlier changes count as removed from the history.
    pub(super) fn resume_from(&mut self, revision: u64, made: u64) {
        self.revision = revision;
        self.made = made;
        for kind_store in self.kind_stores.values_mut() {
            kind_store.forgotten = revision;
        }
    }

    /// Random numbers for an operation. They are the same in every run with the same seed.
    pub(crate) fn chance(&mut self, what: &str) -> Chance {
        self.made += 1;
        self.chance.of(what, self.made)
    }

    pub(crate) fn new_uid(&mut self) -> String {
        let mut bytes = [0_u8; 16];
        self.chance("uid").fill(&mut bytes);
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }

    /// Key that signs tokens. It stays the same for the lifetime of the cluster.
    pub(crate) fn token_key(&self) -> [u8; 32] {
        let mut key = [0; 32];
        self.chance.of("token-key", 0).fill(&mut key);
        key
    }

    /// Random suffix for `generateName`.
    pub(crate) fn suffix(&mut self) -> String {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut chance = self.chance("name");
        let mut letter = || {
            let at = usize::try_from(chance.below(LETTERS.len() as u64)).unwrap_or_default();
            char::from(LETTERS[at])
        };
        (0..5).map(|_| letter()).collect()
    }

    /// Stores an object with a new revision.
    pub(crate) fn put(&mut self, id: &str, mut object: Value) -> Arc<Value> {
        let revision = self.next_revision(&mut object);
        let key = (object::namespace(&object).to_owned(), object::name(&object).to_owned());
        let after = Arc::new(object);
        let kind_store = self.kind_stores.entry(id.to_owned()).or_default();
        let before = kind_store.objects.insert(key, Arc::clone(&after));
        kind_store.remember(Change { revision, before, after: Arc::clone(&after), gone: false });
        after
    }

    /// Removes an object from the store.
    pub(crate) fn take(&mut self, id: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let key = (namespace.to_owned(), name.to_owned());
        let before = self.kind_stores.get_mut(id)?.objects.remove(&key)?;
        let mut last = Value::clone(&before);
        let revision = self.next_revision(&mut last);
        let after = Arc::new(last);
        let change =
            Change { revision, before: Some(before), after: Arc::clone(&after), gone: true };
        self.kind_stores.get_mut(id)?.remember(change);
        Some(after)
    }

    fn next_revision(&mut self, object: &mut Value) -> u64 {
        self.revision += 1;
        let text = self.revision.to_string();
        object::metadata(object).insert("resourceVersion".to_owned(), text.into());
        self.revision
    }

    /// Removes a kind and its objects from the store.
    pub(crate) fn drop_kind_store(&mut self, id: &str) {
        self.kind_stores.remove(id);
        self.kinds.remove(id);
        self.revision += 1;
    }
}

impl KindStore {
    fn remember(&mut self, change: Change) {
        if self.history.len() == HISTORY_LENGTH
            && let Some(oldest) = self.history.pop_front()
        {
            self.forgotten = oldest.revision;
        }
        self.history.push_back(change);
    }
}
