//! Taking the cluster lock.

use std::collections::BTreeMap;
use std::time::Duration;

use talmox_clock::{Chance, Clock, Moment};
use talmox_pve::PveError;
use talmox_pve::id::PoolId;

use super::fence::{ClusterLock, Fence, Stamp, now};
use super::pools::{HeldLock, LAST_NUMBER, LockPools};
use super::{Holder, Life, LockRequest, TakeError};

/// Maximum number of attempts to take a lock while other runs try to take it too.
const TRIES: u64 = 20;
const GIVE_WAY: Duration = Duration::from_millis(300);

/// Takes the lock of a cluster. If the process that holds a lock has provably ended, the lock is taken over at once. If the
/// process may still run on another machine, the lock is watched. If its comment changes, the process runs, and the result is
/// an error. If a whole lease passes without a change, the process has ended.
pub async fn take(request: LockRequest) -> Result<ClusterLock, TakeError> {
    take_over(request, &[]).await
}

/// Takes the lock of a cluster. The user declared that the runs that hold the locks `declared_dead` have ended, so these
/// locks are taken over at once. A lock that another run took after that declaration is not taken over.
pub async fn take_over(
    request: LockRequest,
    declared_dead: &[HeldLock],
) -> Result<ClusterLock, TakeError> {
    let pools = LockPools::new(&request.pve, &request.key);
    // All moments come from one clock, because moments of two clocks cannot be compared.
    let clock = Clock::real();
    let mut watched = Watched { clock, declared_dead, locks: BTreeMap::new(), is_reported: false };
    let mut chance = Chance::new(0).of(&request.holder.run, 0);
    for _ in 0..TRIES {
        let seen = watched.until_all_are_dead(&pools, &request).await?;
        let number = watched.next_number(&seen)?;
        let pool = pools.pool(number, &request.holder.run);
        let comment = request.holder.comment(0, &now());
        let taken = Stamp::now(clock);
        match pools.create(&pool, &comment).await {
            Ok(true) => {
                if is_alone(&pools, &pool, &comment, &seen).await? {
                    match delete_all(&pools, &seen).await {
                        Ok(()) => {
                            let LockRequest { holder, lease, .. } = request;
                            let fence = Fence::new(pools, pool, holder, lease, clock, taken);
                            return Ok(ClusterLock::keep(fence));
                        }
                        Err(error) if is_passing(&error) => {}
                        Err(error) => {
                            pools.delete(&pool).await.ok();
                            return Err(error.into());
                        }
                    }
                }
                pools.delete(&pool).await?;
            }
            // The request is retried. A request without an answer may have created the pool. The next list then contains the
            // pool as one of this run, and the pool is deleted.
            Ok(false) => {}
            Err(TakeError::Pve(error)) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
        clock.sleep(chance.jitter(GIVE_WAY)).await;
    }
    Err(TakeError::Contended)
}

fn is_passing(error: &PveError) -> bool {
    matches!(error, PveError::MaybeApplied { .. }) || error.is_retryable()
}

/// Deletes the locks of ended runs. All of them must be deleted. Otherwise a run that has not ended after all would find its
/// lock after this run has released its own. It would then continue with an outdated plan.
async fn delete_all(pools: &LockPools, dead: &[HeldLock]) -> Result<(), PveError> {
    for lock in dead {
        pools.delete(&lock.pool).await?;
    }
    Ok(())
}

/// Whether every lock except `own` is in `dead`, the locks of ended runs, and has not changed.
async fn is_alone(
    pools: &LockPools,
    own: &PoolId,
    comment: &str,
    dead: &[HeldLock],
) -> Result<bool, TakeError> {
    let Some(all) = pools.list_since(own, comment).await? else { return Ok(false) };
    Ok(all.iter().filter(|lock| lock.pool != *own).all(|lock| dead.contains(lock)))
}

/// Locks of other runs, with their comments and the times at which this process read them first, on the clock of this
/// machine.
struct Watched<'a> {
    clock: Clock,
    /// Locks of runs that have ended according to the user.
    declared_dead: &'a [HeldLock],
    locks: BTreeMap<PoolId, (String, Moment)>,
    is_reported: bool,
}

/// State of the locks of other runs.
enum LockVerdict {
    /// All runs that hold locks have ended.
    Dead,
    Held(Box<Holder>),
    Unreadable(String),
    /// The run may still renew this lock.
    Open(Box<Holder>),
}

impl Watched<'_> {
    fn is_declared_dead(&self, lock: &HeldLock) -> bool {
        self.declared_dead.iter().any(|dead| dead.is_same_run(lock))
    }

    /// A number that is larger than the numbers of the locks of ended runs. If such a run has not ended after all, it finds a
    /// newer lock than its own and stops.
    fn next_number(&self, dead: &[HeldLock]) -> Result<u32, TakeError> {
        let readable = dead.iter().filter(|lock| lock.number <= LAST_NUMBER);
        let Some(last) = readable.max_by_key(|lock| lock.number) else { return Ok(1) };
        if last.number < LAST_NUMBER {
            Ok(last.number + 1)
        } else if self.is_declared_dead(last) {
            // The pool of that lock is deleted before this run changes anything, so the number does not matter.
            Ok(LAST_NUMBER)
        } else {
            Err(TakeError::Unreadable { pool: last.pool.to_string() })
        }
    }

    /// Waits until every lock belongs to a run that has ended, and returns these locks.
    async fn until_all_are_dead(
        &mut self,
        pools: &LockPools,
        request: &LockRequest,
    ) -> Result<Vec<HeldLock>, TakeError> {
        let lease = request.lease;
        loop {
            let seen = pools.list().await?;
            let is_own = |lock: &HeldLock| lock.is_of(&request.holder.run);
            let (own, others): (Vec<HeldLock>, Vec<_>) = seen.into_iter().partition(is_own);
            // A request of this run created this pool, but its answer was lost.
            for lock in own {
                pools.delete(&lock.pool).await?;
            }
            match self.judge(&others, request) {
                LockVerdict::Dead => return Ok(others),
                LockVerdict::Held(holder) => return Err(TakeError::Held(holder)),
                LockVerdict::Unreadable(pool) => return Err(TakeError::Unreadable { pool }),
                LockVerdict::Open(holder) => {
                    if !self.is_reported {
                        self.is_reported = true;
                        (request.report_wait)(&holder);
                    }
                    self.clock.sleep(lease.renew.min(lease.end) / 5).await;
                }
            }
        }
    }

    fn judge(&mut self, locks: &[HeldLock], request: &LockRequest) -> LockVerdict {
        let mut verdict = LockVerdict::Dead;
        for lock in locks {
            if self.is_declared_dead(lock) {
                continue;
            }
            let Some(holder) = &lock.holder else {
                return LockVerdict::Unreadable(lock.pool.to_string());
            };
            match (request.judge)(holder) {
                Life::Dead => continue,
                Life::Alive => return LockVerdict::Held(Box::new(holder.clone())),
                Life::Unknown => {}
            }
            let now = self.clock.moment();
            let (comment, since) =
                self.locks.entry(lock.pool.clone()).or_insert((lock.comment.clone(), now));
            if *comment != lock.comment {
                return LockVerdict::Held(Box::new(holder.clone()));
            }
            if now.since(*since) < request.lease.end {
                verdict = LockVerdict::Open(Box::new(holder.clone()));
            }
        }
        verdict
    }
}
