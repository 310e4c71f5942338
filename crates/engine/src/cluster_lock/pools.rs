//! The pools in Proxmox that represent locks.

use std::time::Duration;

use talmox_clock::Clock;
use talmox_plan::rights::lock_pool::PARENT;
use talmox_pve::api::pool;
use talmox_pve::id::PoolId;
use talmox_pve::{Client, PveError};

use super::holder::word;
use super::{Holder, LockKey, TakeError};

/// Comment of the parent pool, for users who see the pool in Proxmox.
const PARENT_COMMENT: &str = "Locks of talmox: a pool in here is a run of talmox that changes a cluster. See `talmox help unlock`.";
/// Maximum number of reads of the list until it shows the change that the caller made.
const LOOKS: u32 = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// Number of reads of the list after which a pool counts as deleted, if none of these lists contains it.
const LOOKS_FOR_DELETED: u32 = 3;
/// Largest sequence number that a lock name may contain.
pub(super) const LAST_NUMBER: u32 = u32::MAX - 1;
/// Sequence number that is assumed for a lock whose name is not in a known format. It is larger than every other sequence
/// number. A run ignores only locks with smaller numbers than its own, so no run ignores such a lock.
const UNKNOWN_NUMBER: u32 = u32::MAX;

/// A lock that a run holds, or that an ended run did not release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLock {
    pub pool: PoolId,
    pub comment: String,
    /// The run that took the lock. None if this version cannot read the name or the comment of the pool, or if the name and
    /// the comment contain two different runs.
    pub holder: Option<Holder>,
    pub(super) number: u32,
}

impl HeldLock {
    /// Whether the run with this ID holds the lock.
    pub(super) fn is_of(&self, run: &str) -> bool {
        self.holder.as_ref().is_some_and(|holder| holder.run == word(run))
    }

    /// Whether `self` and `other` are the same lock of the same run. The lock may have been renewed in between.
    pub(super) fn is_same_run(&self, other: &Self) -> bool {
        let is_same = match (&self.holder, &other.holder) {
            (Some(one), Some(other)) => one.run == other.run,
            (None, None) => self.comment == other.comment,
            _ => false,
        };
        is_same && self.pool == other.pool
    }

    fn read(pool: PoolId, comment: String, name: Option<LockName<'_>>) -> Self {
        let number = name.as_ref().map_or(UNKNOWN_NUMBER, |name| name.number);
        let holder = name.and_then(|name| {
            Holder::parse(&comment)
                .filter(|holder| name.run.is_none_or(|run| run == run_in_name(&holder.run)))
        });
        Self { pool, comment, holder, number }
    }
}

/// Last part of the name of a lock: `N-RUN`, or `N` in a build whose names did not contain the run.
struct LockName<'a> {
    number: u32,
    run: Option<&'a str>,
}

impl<'a> LockName<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (number, run) = match text.split_once('-') {
            Some((number, run)) => (number, Some(run)),
            None => (text, None),
        };
        let number = number.parse::<u32>().ok().filter(|number| *number <= LAST_NUMBER)?;
        Some(Self { number, run })
    }
}

/// The number of a run as it appears in the name of a pool. Pool names allow fewer characters than comments.
fn run_in_name(run: &str) -> String {
    word(run).replace([':', '@', '+'], "_")
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
            let id = entry.id.clone();
            // A name in an unknown format counts as a lock too: a newer build may have created it.
            let name = LockName::parse(id.as_str().strip_prefix(&head)?);
            Some(HeldLock::read(entry.id, entry.comment.unwrap_or_default(), name))
        });
        Ok(locks.collect())
    }

    /// The list of the locks. If the list does not contain this pool, it is read again a few times. A host may see a change
    /// later than the host that made it.
    pub(super) async fn list_with(&self, pool: &PoolId) -> Result<Vec<HeldLock>, PveError> {
        let mut locks = self.list().await?;
        for _ in 1..LOOKS_FOR_DELETED {
            if locks.iter().any(|lock| lock.pool == *pool) {
                break;
            }
            Clock::real().sleep(BETWEEN_LOOKS).await;
            locks = self.list().await?;
        }
        Ok(locks)
    }

    /// The list of the locks, read until this pool has this comment. Such a list contains all changes that were made before
    /// the comment was written. Earlier lists may lack some, because a host may see a change later than the host that made
    /// it. None if no list contains the comment.
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
            // The pool was deleted, and does not appear again.
            if look >= LOOKS_FOR_DELETED && !locks.iter().any(|lock| lock.pool == *pool) {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Name of the pool for the lock of a run. The name contains the run, so a request for this pool cannot change the
    /// lock of another run.
    pub(super) fn pool(&self, number: u32, run: &str) -> PoolId {
        let name = format!("{PARENT}/{}-{number}-{}", self.key.0, run_in_name(run));
        name.parse().expect("invariant: letters, digits, one slash and `.`, `_`, `-` are a pool id")
    }

    /// Creates the pool of a lock. Returns false if the pool exists already.
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

    /// Deletes a lock, if it still exists and still belongs to this run.
    pub(super) async fn delete_of(&self, pool: &PoolId, run: &str) -> Result<(), PveError> {
        let locks = self.list().await?;
        if locks.iter().any(|lock| lock.pool == *pool && lock.is_of(run)) {
            self.delete(pool).await
        } else {
            Ok(())
        }
    }

    /// Deletes a lock, if it still exists. The caller has checked before which run the lock belongs to.
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

/// The locks of this key that runs hold, or that ended runs did not release.
pub async fn held(client: &Client, key: &LockKey) -> Result<Vec<HeldLock>, PveError> {
    LockPools::new(client, key).list().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(name: &str, run: &str) -> HeldLock {
        let comment =
            format!("talmox-lock/1 cluster=c command=up user=u host=h pid=1 run={run} since=s");
        let pool = format!("{PARENT}/c0-{name}").parse().unwrap();
        HeldLock::read(pool, comment, LockName::parse(name))
    }

    #[test]
    fn names_of_this_build_and_of_older_ones_are_read() {
        let new = lock("3-0123abcd", "0123abcd");
        assert_eq!((new.number, new.is_of("0123abcd"), new.is_of("other")), (3, true, false));
        let old = lock("7", "0123abcd");
        assert_eq!((old.number, old.is_of("0123abcd")), (7, true));
        assert_eq!(lock("1-run-of-a", "run-of-a").number, 1);
        assert!(lock("1-a_b", "a+b").holder.is_some());
    }

    #[test]
    fn a_name_that_does_not_fit_makes_a_lock_unreadable() {
        for name in ["4294967295", "4294967295-a", "99999999999", "x", "x-a", "", "1/a", "1-b"] {
            let pool = format!("{PARENT}/c0-1").parse().unwrap();
            let comment = lock("1", "a").comment;
            let read = HeldLock::read(pool, comment, LockName::parse(name));
            assert_eq!(read.holder, None, "{name}");
        }
        assert_eq!(lock("4294967294-a", "a").number, LAST_NUMBER);
    }
}
