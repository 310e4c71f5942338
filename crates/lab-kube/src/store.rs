//! All objects of one cluster, what happened to them lately, and who is told.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use talmox_clock::{Chance, Clock};
use talmox_talos_config::time::UnixTime;
use tokio::sync::watch;

use super::controller::Machines;
use super::failure::Failure;
use super::kind::{Kind, Kinds};
use super::object;
use super::security::PodSecurity;

/// Changes of one kind that are remembered for watchers; older ones are answered with 410.
const REMEMBERED: usize = 1000;

/// What a cluster is made with.
#[derive(Clone, Debug)]
pub struct KubeSettings {
    pub clock: Clock,
    /// What ids, names and jitter are drawn from.
    pub chance: Chance,
    /// How long a pod takes from being scheduled to running, about; zero for no time at all.
    pub pod_start: Duration,
    /// The first 24 bits of service addresses.
    pub service_network: [u8; 3],
    /// The first 16 bits of pod addresses; every node gets a /24 of it.
    pub pod_network: [u8; 2],
    /// PEM of the authority, for the ConfigMap `kube-root-ca.crt` of each namespace.
    pub authority: String,
}

/// The API's memory. All servers of a cluster share one.
#[derive(Debug)]
pub struct KubeStore {
    state: Mutex<State>,
    news: watch::Sender<u64>,
    pub(crate) clock: Clock,
}

impl KubeStore {
    pub fn new(settings: KubeSettings) -> Arc<Self> {
        let store = Self::empty(settings);
        store.with(super::bootstrap::fill);
        store
    }

    /// Without what every cluster has.
    pub(super) fn empty(settings: KubeSettings) -> Arc<Self> {
        let clock = settings.clock;
        let state = State {
            kinds: Kinds::default(),
            shelves: BTreeMap::new(),
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
        Arc::new(Self { state: Mutex::new(state), news: watch::channel(revision).0, clock })
    }

    /// Does something with the objects, alone, and tells the watchers if any changed.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        state.now = self.clock.since_epoch();
        let before = state.revision;
        let result = act(&mut state);
        let after = state.revision;
        drop(state);
        if after != before {
            self.news.send_replace(after);
        }
        result
    }

    /// Should one request ever panic, it does not take the cluster with it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes when anything does.
    pub fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// The newest change.
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    pub fn settings(&self) -> KubeSettings {
        self.lock().settings.clone()
    }

    /// What all objects take, in bytes.
    pub fn size(&self) -> u64 {
        let everything = self.lock().everything();
        let sizes = everything.values().flatten().map(|object| object.to_string().len() as u64);
        sizes.sum()
    }

    /// An object as it is now. `id` is `pods`, `deployments.apps`…; the namespace is empty for kinds
    /// that have none.
    pub fn get(&self, id: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.with(|state| state.get(id, namespace, name).cloned())
    }

    /// All objects of a kind.
    pub fn list(&self, id: &str) -> Vec<Arc<Value>> {
        self.with(|state| state.iter(id).cloned().collect())
    }

    /// Adds an object, as somebody inside the cluster who may do everything.
    pub fn create(&self, id: &str, object: Value) -> Result<Arc<Value>, Failure> {
        self.with(|state| state.create_inside(id, object))
    }

    /// Changes an object; nothing happens if it is not there or stays the same.
    pub fn change(&self, id: &str, namespace: &str, name: &str, edit: impl FnOnce(&mut Value)) {
        self.with(|state| state.change(id, namespace, name, edit));
    }

    /// Deletes as `kubectl delete` does: finalizers and graceful ends are waited for by those who
    /// look.
    pub fn delete(&self, id: &str, namespace: &str, name: &str) -> Result<(), Failure> {
        self.with(|state| state.delete_inside(id, namespace, name))
    }
}

/// One kind's objects.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    pub(crate) objects: BTreeMap<(String, String), Arc<Value>>,
    pub(crate) history: VecDeque<Change>,
    /// What happened up to this revision is no longer known.
    pub(crate) forgotten: u64,
}

/// Something that happened to an object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) before: Option<Arc<Value>>,
    /// As it is now, or as it was when it went.
    pub(crate) after: Arc<Value>,
    pub(crate) gone: bool,
}

/// What is behind the lock.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) kinds: Kinds,
    shelves: BTreeMap<String, Shelf>,
    pub(crate) revision: u64,
    made: u64,
    chance: Chance,
    /// The time, since 1970.
    pub(crate) now: Duration,
    pub(crate) machines: Machines,
    /// Which pods are admitted; none where another API server has decided that.
    pub(crate) pod_security: Option<PodSecurity>,
    /// What whoever asks at the moment is warned of.
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

    pub(crate) fn shelf(&self, id: &str) -> Option<&Shelf> {
        self.shelves.get(id)
    }

    pub(crate) fn get(&self, id: &str, namespace: &str, name: &str) -> Option<&Arc<Value>> {
        self.shelves.get(id)?.objects.get(&(namespace.to_owned(), name.to_owned()))
    }

    pub(crate) fn iter(&self, id: &str) -> impl Iterator<Item = &Arc<Value>> {
        self.shelves.get(id).into_iter().flat_map(|shelf| shelf.objects.values())
    }

    /// A copy of the list, for passes that change what they walk over.
    pub(crate) fn all(&self, id: &str) -> Vec<Arc<Value>> {
        self.iter(id).cloned().collect()
    }

    pub(crate) fn in_namespace(
        &self,
        id: &str,
        namespace: &str,
    ) -> impl Iterator<Item = &Arc<Value>> {
        let start = (namespace.to_owned(), String::new());
        let objects = self.shelves.get(id).map(|shelf| shelf.objects.range(start..));
        let inside = objects.into_iter().flatten();
        inside.take_while(move |((ns, _), _)| ns == namespace).map(|(_, object)| object)
    }

    /// All objects of all kinds.
    pub(super) fn everything(&self) -> BTreeMap<String, Vec<Arc<Value>>> {
        let all = self.shelves.iter();
        all.map(|(id, shelf)| (id.clone(), shelf.objects.values().cloned().collect())).collect()
    }

    pub(super) fn made(&self) -> u64 {
        self.made
    }

    /// Puts an object back as it was; nobody is told.
    pub(super) fn shelve(&mut self, id: &str, object: Arc<Value>) {
        let key = (object::namespace(&object).to_owned(), object::name(&object).to_owned());
        self.shelves.entry(id.to_owned()).or_default().objects.insert(key, object);
    }

    /// Goes on counting from here; what happened before is no longer known.
    pub(super) fn go_on(&mut self, revision: u64, made: u64) {
        self.revision = revision;
        self.made = made;
        for shelf in self.shelves.values_mut() {
            shelf.forgotten = revision;
        }
    }

    /// Numbers by chance that are the same in every run.
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

    /// What tokens are signed with: the same for as long as the cluster is.
    pub(crate) fn token_key(&self) -> [u8; 32] {
        let mut key = [0; 32];
        self.chance.of("token-key", 0).fill(&mut key);
        key
    }

    /// What is put behind a `generateName`.
    pub(crate) fn suffix(&mut self) -> String {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut chance = self.chance("name");
        let mut letter = || {
            let at = usize::try_from(chance.below(LETTERS.len() as u64)).unwrap_or_default();
            char::from(LETTERS[at])
        };
        (0..5).map(|_| letter()).collect()
    }

    /// Puts an object where it belongs, as the newest change.
    pub(crate) fn put(&mut self, id: &str, mut object: Value) -> Arc<Value> {
        let revision = self.next_revision(&mut object);
        let key = (object::namespace(&object).to_owned(), object::name(&object).to_owned());
        let after = Arc::new(object);
        let shelf = self.shelves.entry(id.to_owned()).or_default();
        let before = shelf.objects.insert(key, Arc::clone(&after));
        shelf.remember(Change { revision, before, after: Arc::clone(&after), gone: false });
        after
    }

    /// Takes an object away for good.
    pub(crate) fn take(&mut self, id: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let key = (namespace.to_owned(), name.to_owned());
        let before = self.shelves.get_mut(id)?.objects.remove(&key)?;
        let mut last = Value::clone(&before);
        let revision = self.next_revision(&mut last);
        let after = Arc::new(last);
        let change =
            Change { revision, before: Some(before), after: Arc::clone(&after), gone: true };
        self.shelves.get_mut(id)?.remember(change);
        Some(after)
    }

    fn next_revision(&mut self, object: &mut Value) -> u64 {
        self.revision += 1;
        let text = self.revision.to_string();
        object::metadata(object).insert("resourceVersion".to_owned(), text.into());
        self.revision
    }

    /// Forgets a kind altogether: its definition is gone.
    pub(crate) fn drop_shelf(&mut self, id: &str) {
        self.shelves.remove(id);
        self.kinds.remove(id);
        self.revision += 1;
    }
}

impl Shelf {
    fn remember(&mut self, change: Change) {
        if self.history.len() == REMEMBERED
            && let Some(oldest) = self.history.pop_front()
        {
            self.forgotten = oldest.revision;
        }
        self.history.push_back(change);
    }
}
