//! Locks in place of the lock files of Proxmox. Their timeout errors have the same text as those of Proxmox.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use talmox_clock::Clock;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use super::ApiError;

/// Maximum wait of a call for the lock of a VM.
pub(crate) const CALL_LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum wait of a create or clone task for the lock of a VM.
pub(crate) const WORKER_LOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum wait of an allocation for the lock of its storage.
const STORAGE_LOCK_TIMEOUT: Duration = Duration::from_mins(1);

/// Lock files of VMs and storages.
#[derive(Debug)]
pub(crate) struct Locks {
    clock: Clock,
    files: Mutex<HashMap<String, Arc<RwLock<()>>>>,
    /// Lock files whose next lock attempt times out because of a fault.
    failing: Mutex<HashSet<String>>,
}

/// Lock that is held until it is dropped.
#[derive(Debug)]
#[must_use]
#[expect(dead_code, reason = "the guard is held for its drop, its content is not read")]
pub(crate) enum LockGuard {
    Shared(OwnedRwLockReadGuard<()>),
    Exclusive(OwnedRwLockWriteGuard<()>),
}

/// Error text of a lock that was not acquired before the timeout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockTimeout(String);

impl fmt::Display for LockTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<LockTimeout> for ApiError {
    fn from(timeout: LockTimeout) -> Self {
        Self::failed(timeout.0)
    }
}

impl Locks {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, files: Mutex::default(), failing: Mutex::default() }
    }

    /// Acquires the exclusive lock of a VM config.
    pub(crate) async fn vm(&self, vmid: u32, timeout: Duration) -> Result<LockGuard, LockTimeout> {
        self.exclusive(&vm_file(vmid), timeout).await
    }

    /// Makes the next attempt to lock a VM time out.
    pub(crate) fn fail_next_vm_lock(&self, vmid: u32) {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner).insert(vm_file(vmid));
    }

    /// Acquires the shared lock of a VM config. Clones of a stopped VM use it.
    pub(crate) async fn vm_shared(
        &self,
        vmid: u32,
        timeout: Duration,
    ) -> Result<LockGuard, LockTimeout> {
        let path = vm_file(vmid);
        self.check_injected_timeout(&path, timeout).await?;
        let lock = self.file(&path);
        let guard = self.clock.timeout(timeout, lock.read_owned()).await;
        guard.map(LockGuard::Shared).map_err(|_| file_timeout(&path))
    }

    /// Acquires the lock that an allocation on a storage holds. A storage that is not shared has one lock for each host.
    pub(crate) async fn storage(
        &self,
        host: &str,
        id: &str,
        shared: bool,
    ) -> Result<LockGuard, LockTimeout> {
        if !shared {
            let path = format!("/var/lock/pve-manager/pve-storage-{id}");
            let lock = self.file(&format!("{host}:{path}"));
            let guard = self.clock.timeout(STORAGE_LOCK_TIMEOUT, lock.write_owned()).await;
            return guard.map(LockGuard::Exclusive).map_err(|_| file_timeout(&path));
        }
        let lock = self.file(&format!("storage-{id}"));
        let guard = self.clock.timeout(STORAGE_LOCK_TIMEOUT, lock.write_owned()).await;
        guard.map(LockGuard::Exclusive).map_err(|_| {
            LockTimeout(format!("cfs-lock 'storage-{id}' error: got lock request timeout"))
        })
    }

    async fn exclusive(&self, path: &str, timeout: Duration) -> Result<LockGuard, LockTimeout> {
        self.check_injected_timeout(path, timeout).await?;
        let lock = self.file(path);
        let guard = self.clock.timeout(timeout, lock.write_owned()).await;
        guard.map(LockGuard::Exclusive).map_err(|_| file_timeout(path))
    }

    async fn check_injected_timeout(
        &self,
        path: &str,
        timeout: Duration,
    ) -> Result<(), LockTimeout> {
        if self.failing.lock().unwrap_or_else(PoisonError::into_inner).remove(path) {
            self.clock.sleep(timeout).await;
            return Err(file_timeout(path));
        }
        Ok(())
    }

    fn file(&self, path: &str) -> Arc<RwLock<()>> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(files.entry(path.to_owned()).or_default())
    }
}

fn vm_file(vmid: u32) -> String {
    format!("/var/lock/qemu-server/lock-{vmid}.conf")
}

fn file_timeout(path: &str) -> LockTimeout {
    LockTimeout(format!("can't lock file '{path}' - got timeout"))
}
