//! The pools in Proxmox that locks consist of.

use std::time::Duration;

use talmox_clock::Clock;
use talmox_plan::rights::lock_pool::PARENT;
use talmox_pve::api::pool;
use talmox_pve::id::PoolId;
use talmox_pve::{Client, PveError};

use super::{Holder, LockKey, TakeError};

/// Comment of the parent pool, for readers of the list of pools.
const PARENT_COMMENT: &str = "Locks of talmox: a pool in here is a run of talmox that changes a cluster. See `talmox help unlock`.";
/// Number of reads of a list that does not show the caller's own change yet.
const LOOKS: u32 = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// A lock that a run holds, or did not release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLock {
    pub pool: PoolId,
    pub comment: String,
    /// None if the comment is not in the format of this version.
    pub holder: Option<Holder>,
    pub(super) number: u32,
}

/// The pools of one key.
#[derive(Clone, Debug)]
pub(super) struct LockPools {
    client: Client,
    key: LockKey,
}

impl LockPools {
    pub(super) fn new(client: &Client, key: &LockKey) -> Self {
        Self { client: client.clone(), key: key.clone() }
    }

    pub(super) async fn list(&self) -> Result<Vec<HeldLock>, PveError> {
        let head = format!("{PARENT}/{}-", self.key.0);
        let all = self.client.send(&pool::list()).await?;
        let locks = all.into_iter().filter_map(|entry| {
            let number = entry.id.as_str().strip_prefix(&head)?.parse().ok()?;
            let comment = entry.comment.unwrap_or_default();
            let holder = Holder::parse(&comment);
            Some(HeldLock { pool: entry.id, comment, holder, number })
        });
        Ok(locks.collect())
    }

    /// A list with this comment, and so with all changes before it: a host may see a change later than the host that made it. None if
    /// no list shows the comment.
    pub(super) async fn list_since(
        &self,
        pool: &PoolId,
        comment: &str,
    ) -> Result<Option<Vec<HeldLock>>, PveError> {
        for look in 0..LOOKS {
            if look > 0 {
                Clock::real().sleep(BETWEEN_LOOKS).await;
            }
            let locks = self.list().await?;
            let is_shown = |lock: &HeldLock| lock.pool == *pool && lock.comment == comment;
            if locks.iter().any(is_shown) {
                return Ok(Some(locks));
            }
            // A deleted pool does not appear again.
            if look > 2 && !locks.iter().any(|lock| lock.pool == *pool) {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// The name of a lock.
    pub(super) fn pool(&self, number: u32) -> PoolId {
        let name = format!("{PARENT}/{}-{number}", self.key.0);
        name.parse().expect("invariant: letters, digits, one slash and a dash are a pool id")
    }

    /// Creates a lock. False if that pool exists already.
    pub(super) async fn create(&self, pool: &PoolId, comment: &str) -> Result<bool, TakeError> {
        let request = pool::create(pool, Some(comment));
        let rejected = match self.client.send(&request).await {
            Ok(()) => return Ok(true),
            Err(error) => error,
        };
        if rejected.is_already_exists() {
            return Ok(false);
        }
        if !rejected.is_not_found() {
            return Err(rejected_error(rejected));
        }
        // The first run creates the parent pool.
        let parent = PARENT.parse().expect("invariant: letters and a dash are a pool id");
        match self.client.send(&pool::create(&parent, Some(PARENT_COMMENT))).await {
            Ok(()) => {}
            Err(error) if error.is_already_exists() => {}
            Err(error) => return Err(rejected_error(error)),
        }
        match self.client.send(&request).await {
            Ok(()) => Ok(true),
            Err(error) if error.is_already_exists() => Ok(false),
            Err(error) => Err(rejected_error(error)),
        }
    }

    pub(super) async fn set_comment(&self, pool: &PoolId, comment: &str) -> Result<(), PveError> {
        self.client.send(&pool::set_comment(pool, comment)).await
    }

    /// Deletes a lock, if it still exists.
    pub(super) async fn delete(&self, pool: &PoolId) -> Result<(), PveError> {
        match self.client.send(&pool::delete(pool)).await {
            Err(error) if error.is_not_found() => Ok(()),
            other => other,
        }
    }
}

fn rejected_error(error: PveError) -> TakeError {
    if error.is_permission() {
        TakeError::Forbidden(error)
    } else if error.status() == Some(400) {
        TakeError::Unsupported(error)
    } else {
        TakeError::Pve(error)
    }
}

/// The locks of this key that runs hold, or did not release.
pub async fn held(client: &Client, key: &LockKey) -> Result<Vec<HeldLock>, PveError> {
    LockPools::new(client, key).list().await
}

/// Deletes a lock on purpose. Its run detects that and stops before its next change.
pub async fn break_lock(client: &Client, key: &LockKey, lock: &HeldLock) -> Result<(), PveError> {
    LockPools::new(client, key).delete(&lock.pool).await
}
