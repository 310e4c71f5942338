use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use talmox_pve_types::id::{NodeName, StorageId};
use talmox_pve_types::request::Scope;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limits of concurrency. Requests and tasks above a limit wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of concurrent requests per endpoint. A host has three API workers by default.
    pub requests: usize,
    /// Maximum number of concurrent tasks per host.
    pub per_host: usize,
    /// Maximum number of concurrent tasks per storage. The tasks of all hosts count together if the storage is shared.
    pub per_storage: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { requests: 6, per_host: 4, per_storage: 2 }
    }
}

/// Permits for one task on a host and its storages. They are returned when this value is dropped.
#[derive(Debug, Default)]
pub struct Permits {
    _held: Vec<OwnedSemaphorePermit>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// Storage of one node. Without a node: shared storage of all nodes.
    Storage(StorageId, Option<NodeName>),
    Host(NodeName),
}

#[derive(Debug)]
pub(super) struct Limiter {
    limits: Limits,
    semaphores: Mutex<BTreeMap<Key, Arc<Semaphore>>>,
    shared: Mutex<BTreeSet<StorageId>>,
}

impl Limiter {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, semaphores: Mutex::default(), shared: Mutex::default() }
    }

    pub(super) fn set_shared(&self, storages: BTreeSet<StorageId>) {
        *self.shared.lock().expect("invariant: the lock is never poisoned") = storages;
    }

    /// Waits until the host and all storages are below their limits. A waiting task holds no permit, so that a full
    /// storage does not delay tasks on other storages.
    pub(super) async fn acquire(&self, scope: &Scope) -> Permits {
        let rooms: Vec<Arc<Semaphore>> =
            self.keys(scope).into_iter().map(|key| self.semaphore(key)).collect();
        let mut full = 0;
        loop {
            let mut held = vec![];
            // Waits for the semaphore that was full at the last attempt.
            if let Some(room) = rooms.get(full) {
                let permit = Arc::clone(room).acquire_owned().await;
                held.push(permit.expect("invariant: never closed"));
            }
            let others = (0..rooms.len()).filter(|other| *other != full);
            match take(&rooms, others, &mut held) {
                Ok(()) => return Permits { _held: held },
                Err(other) => full = other,
            }
        }
    }

    fn keys(&self, scope: &Scope) -> BTreeSet<Key> {
        let shared = self.shared.lock().expect("invariant: the lock is never poisoned");
        let storage = |storage: &StorageId| {
            let node = scope.node.clone().filter(|_| !shared.contains(storage));
            Key::Storage(storage.clone(), node)
        };
        scope.storages.iter().map(storage).chain(scope.node.clone().map(Key::Host)).collect()
    }

    fn semaphore(&self, key: Key) -> Arc<Semaphore> {
        let room = match key {
            Key::Host(_) => self.limits.per_host,
            Key::Storage(..) => self.limits.per_storage,
        };
        let mut semaphores = self.semaphores.lock().expect("invariant: the lock is never poisoned");
        Arc::clone(semaphores.entry(key).or_insert_with(|| Arc::new(Semaphore::new(room.max(1)))))
    }
}

/// Takes one permit of each semaphore, or returns the index of the first full semaphore.
fn take(
    rooms: &[Arc<Semaphore>],
    which: impl Iterator<Item = usize>,
    held: &mut Vec<OwnedSemaphorePermit>,
) -> Result<(), usize> {
    for one in which {
        held.push(Arc::clone(&rooms[one]).try_acquire_owned().map_err(|_| one)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::Poll;

    use super::*;

    fn scope(node: &str, storages: &[&str]) -> Scope {
        Scope {
            node: Some(node.parse().unwrap()),
            storages: storages.iter().map(|storage| storage.parse().unwrap()).collect(),
        }
    }

    /// Whether a permit is available without waiting.
    async fn is_free(limiter: &Limiter, scope: &Scope) -> bool {
        !is_pending(&mut Box::pin(limiter.acquire(scope))).await
    }

    async fn is_pending(waiting: &mut Pin<Box<impl Future>>) -> bool {
        std::future::poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_pending()))
            .await
    }

    #[tokio::test]
    async fn concurrency_is_limited_per_host_and_storage() {
        let limiter = Limiter::new(Limits { requests: 1, per_host: 2, per_storage: 1 });
        let lvm = limiter.acquire(&scope("pve1", &["local-lvm"])).await;
        assert!(!is_free(&limiter, &scope("pve1", &["local-lvm"])).await, "the storage is full");
        assert!(is_free(&limiter, &scope("pve2", &["local-lvm"])).await, "another host's is not");
        assert!(is_free(&limiter, &scope("pve1", &["tank"])).await);
        let plain = limiter.acquire(&scope("pve1", &[])).await;
        assert!(!is_free(&limiter, &scope("pve1", &["tank"])).await, "the host is full");
        drop((lvm, plain));
        assert!(is_free(&limiter, &scope("pve1", &["local-lvm", "tank"])).await);
    }

    #[tokio::test]
    async fn a_shared_storage_has_one_limit_for_all_hosts() {
        let limiter = Limiter::new(Limits { requests: 1, per_host: 2, per_storage: 1 });
        limiter.set_shared(["ceph".parse().unwrap()].into());
        let _held = limiter.acquire(&scope("pve1", &["ceph"])).await;
        assert!(!is_free(&limiter, &scope("pve2", &["ceph"])).await);
    }

    #[tokio::test]
    async fn waiting_for_one_storage_holds_no_permit_of_another() {
        let limiter = Limiter::new(Limits { requests: 1, per_host: 2, per_storage: 1 });
        limiter.set_shared(["ceph".parse().unwrap()].into());
        let slow = limiter.acquire(&scope("pve1", &["slow"])).await;
        let both = scope("pve1", &["fast", "slow"]);
        let mut waiting = Box::pin(limiter.acquire(&both));
        assert!(is_pending(&mut waiting).await);
        assert!(is_free(&limiter, &scope("pve1", &["fast"])).await);
        drop(slow);
        let held = waiting.await;
        assert!(!is_free(&limiter, &scope("pve1", &["fast"])).await);

        let plain = limiter.acquire(&scope("pve1", &[])).await;
        let shared = scope("pve1", &["ceph"]);
        let mut waiting = Box::pin(limiter.acquire(&shared));
        assert!(is_pending(&mut waiting).await, "its host is full");
        assert!(
            is_free(&limiter, &scope("pve2", &["ceph"])).await,
            "another host waits not for it"
        );
        drop((held, plain));
        waiting.await;
    }

    #[tokio::test]
    async fn a_limit_of_zero_counts_as_one() {
        let limiter = Limiter::new(Limits { requests: 0, per_host: 0, per_storage: 0 });
        let _held = limiter.acquire(&scope("pve1", &["tank"])).await;
    }
}
