//! Taking a lock.

use std::collections::BTreeMap;
use std::time::Duration;

use talmox_clock::{Chance, Clock, Moment};
use talmox_pve::PveError;
use talmox_pve::id::PoolId;

use super::fence::{ClusterLock, Fence, now, time_of_day};
use super::pools::{HeldLock, LockPools};
use super::{Holder, Life, LockRequest, TakeError};

/// Number of times that a run lets others take the same lock first.
const TRIES: u64 = 20;
const GIVE_WAY: Duration = Duration::from_millis(300);

/// Takes the lock of a cluster. A lock whose holder is provably dead is taken over at once; one whose holder may be alive on
/// another machine is watched until its comment changes (it is alive) or a lease has passed (it is dead).
pub async fn take(request: LockRequest) -> Result<ClusterLock, TakeError> {
    let pools = LockPools::new(&request.pve, &request.key);
    // One clock for all moments: moments of two clocks cannot be compared.
    let clock = Clock::real();
    let mut watched = Watched { clock, locks: BTreeMap::new(), is_reported: false };
    let mut chance = Chance::new(0).of(&request.holder.run, 0);
    for _ in 0..TRIES {
        let seen = watched.until_nobody_is_alive(&pools, &request).await?;
        let number = seen.iter().map(|lock| lock.number).max().unwrap_or_default() + 1;
        let pool = pools.pool(number);
        let comment = request.holder.comment(0, &now());
        let confirmed = (clock.moment(), time_of_day());
        match pools.create(&pool, &comment).await {
            Ok(true) => {
                if is_alone(&pools, &pool, &comment, &seen).await? {
                    // Pools of dead runs are deleted, so that later runs do not have to check them again.
                    for dead in &seen {
                        pools.delete(&dead.pool).await.ok();
                    }
                    let LockRequest { holder, lease, .. } = request;
                    let fence = Fence::new(pools, pool, holder, lease, clock, confirmed);
                    return Ok(ClusterLock::keep(fence));
                }
                pools.delete(&pool).await?;
            }
            // Another run was faster, or the request is retried. A request whose answer was lost may have created the pool: the next
            // read finds it as a pool of this run, and deletes it.
            Ok(false) | Err(TakeError::Pve(PveError::MaybeApplied { .. })) => {}
            Err(TakeError::Pve(error)) if error.is_retryable() => {}
            Err(error) => return Err(error),
        }
        clock.sleep(chance.jitter(GIVE_WAY)).await;
    }
    Err(TakeError::Contended)
}

/// Whether all other locks are those that were found dead, and have not changed since.
async fn is_alone(
    pools: &LockPools,
    own: &PoolId,
    comment: &str,
    dead: &[HeldLock],
) -> Result<bool, TakeError> {
    let Some(all) = pools.list_since(own, comment).await? else { return Ok(false) };
    Ok(all.iter().filter(|lock| lock.pool != *own).all(|lock| dead.contains(lock)))
}

/// Locks of other runs, and when their comments changed last, on the clock of this machine.
struct Watched {
    clock: Clock,
    locks: BTreeMap<PoolId, (String, Moment)>,
    is_reported: bool,
}

/// State of the locks of other runs.
enum LockVerdict {
    /// All of them are dead.
    Dead,
    Held(Box<Holder>),
    Unreadable(String),
    /// This lock may still be renewed.
    Open(Box<Holder>),
}

impl Watched {
    /// Waits until every lock is of a dead run, and returns these locks.
    async fn until_nobody_is_alive(
        &mut self,
        pools: &LockPools,
        request: &LockRequest,
    ) -> Result<Vec<HeldLock>, TakeError> {
        let lease = request.lease;
        loop {
            let seen = pools.list().await?;
            let is_own = |lock: &HeldLock| {
                lock.holder.as_ref().is_some_and(|holder| holder.run == request.holder.run)
            };
            let (own, others): (Vec<HeldLock>, Vec<_>) = seen.into_iter().partition(is_own);
            // A pool that a request of this run created, whose answer was lost.
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
