//! Lock files: one holder at a time, and whoever waits too long gives up with Proxmox's words.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use talmox_clock::Clock;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use super::Refusal;

/// How long a call waits for a VM's lock file.
pub(crate) const CALL_PATIENCE: Duration = Duration::from_secs(10);
/// How long the workers of create and clone wait for it.
pub(crate) const WORKER_PATIENCE: Duration = Duration::from_secs(1);
/// How long an allocation waits for its storage.
const STORAGE_PATIENCE: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(crate) struct Locks {
    clock: Clock,
    files: Mutex<HashMap<String, Arc<RwLock<()>>>>,
    /// Files that the next one who comes cannot have, whoever holds them.
    lost: Mutex<HashSet<String>>,
}

/// Held until dropped.
#[derive(Debug)]
#[must_use]
#[expect(dead_code, reason = "a guard is kept, not read")]
pub(crate) enum LockGuard {
    Shared(OwnedRwLockReadGuard<()>),
    Exclusive(OwnedRwLockWriteGuard<()>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockTimeout(String);

impl fmt::Display for LockTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<LockTimeout> for Refusal {
    fn from(timeout: LockTimeout) -> Self {
        Self::failed(timeout.0)
    }
}

impl Locks {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, files: Mutex::default(), lost: Mutex::default() }
    }

    /// The lock file of a VM's configuration.
    pub(crate) async fn vm(&self, vmid: u32, patience: Duration) -> Result<LockGuard, LockTimeout> {
        self.exclusive(&vm_file(vmid), patience).await
    }

    /// The next one who wants a VM's lock file waits for it in vain.
    pub(crate) fn lose_vm(&self, vmid: u32) {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).insert(vm_file(vmid));
    }

    /// A VM's lock file, held together with other readers: clones of a stopped VM.
    pub(crate) async fn vm_shared(
        &self,
        vmid: u32,
        patience: Duration,
    ) -> Result<LockGuard, LockTimeout> {
        let path = vm_file(vmid);
        self.check_lost(&path, patience).await?;
        let lock = self.file(&path);
        let guard = self.clock.timeout(patience, lock.read_owned()).await;
        guard.map(LockGuard::Shared).map_err(|_| file_timeout(&path))
    }

    /// The lock of a storage: every allocation on it holds it. Of one that is not shared, each host has its own.
    pub(crate) async fn storage(
        &self,
        host: &str,
        id: &str,
        shared: bool,
    ) -> Result<LockGuard, LockTimeout> {
        if !shared {
            let path = format!("/var/lock/pve-manager/pve-storage-{id}");
            let lock = self.file(&format!("{host}:{path}"));
            let guard = self.clock.timeout(STORAGE_PATIENCE, lock.write_owned()).await;
            return guard.map(LockGuard::Exclusive).map_err(|_| file_timeout(&path));
        }
        let lock = self.file(&format!("storage-{id}"));
        let guard = self.clock.timeout(STORAGE_PATIENCE, lock.write_owned()).await;
        guard.map(LockGuard::Exclusive).map_err(|_| {
            LockTimeout(format!("cfs-lock 'storage-{id}' error: got lock request timeout"))
        })
    }

    async fn exclusive(&self, path: &str, patience: Duration) -> Result<LockGuard, LockTimeout> {
        self.check_lost(path, patience).await?;
        let lock = self.file(path);
        let guard = self.clock.timeout(patience, lock.write_owned()).await;
        guard.map(LockGuard::Exclusive).map_err(|_| file_timeout(path))
    }

    async fn check_lost(&self, path: &str, patience: Duration) -> Result<(), LockTimeout> {
        if self.lost.lock().unwrap_or_else(PoisonError::into_inner).remove(path) {
            self.clock.sleep(patience).await;
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
