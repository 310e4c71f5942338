//! A held lock, which is renewed and checked before every change.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use talmox_clock::{Clock, Moment};
use talmox_pve::PveError;
use talmox_pve::id::PoolId;
use talmox_talos_config::time::UnixTime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::pools::LockPools;
use super::{Holder, Lease};

/// The time of day, from a new clock: a clock counts from the time at which it was made, and stops while the machine sleeps.
pub(super) fn time_of_day() -> u64 {
    Clock::real().unix()
}

/// The time in UTC, as text.
pub(super) fn now() -> String {
    UnixTime::from_seconds(i64::try_from(time_of_day()).unwrap_or(i64::MAX)).to_string()
}

/// The run no longer holds its lock.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockLost {
    #[error("the lock of this run was taken over by {0}")]
    TakenOver(Box<Holder>),
    #[error("the lock of this run was removed from Proxmox (the pool {0})")]
    Removed(String),
}

/// Why no change may be made now.
#[derive(Debug, thiserror::Error)]
pub enum Unconfirmed {
    #[error(transparent)]
    Lost(#[from] LockLost),
    /// Whether the run still holds its lock is not known. It may be known later.
    #[error("Proxmox does not confirm the lock of this run")]
    Unanswered(#[source] PveError),
    #[error("Proxmox does not show the lock of this run as it was renewed")]
    Behind,
}

/// Check whether the run still holds its lock. Clones share one lock.
#[derive(Clone, Debug)]
pub struct Fence(Arc<FenceInner>);

#[derive(Debug)]
struct FenceInner {
    pools: LockPools,
    pool: PoolId,
    holder: Holder,
    lease: Lease,
    /// The clock of all moments below.
    clock: Clock,
    state: Mutex<FenceState>,
    /// Held during a renewal: each must read its own comment.
    turn: tokio::sync::Mutex<()>,
    lost: watch::Sender<Option<LockLost>>,
}

#[derive(Debug)]
struct FenceState {
    beat: u64,
    /// Start of the last renewal that succeeded, on a monotonic clock and on one that continues while the machine sleeps.
    confirmed: (Moment, u64),
}

impl Fence {
    pub(super) fn new(
        pools: LockPools,
        pool: PoolId,
        holder: Holder,
        lease: Lease,
        clock: Clock,
        confirmed: (Moment, u64),
    ) -> Self {
        Self(Arc::new(FenceInner {
            pools,
            pool,
            holder,
            lease,
            clock,
            state: Mutex::new(FenceState { beat: 0, confirmed }),
            turn: tokio::sync::Mutex::default(),
            lost: watch::Sender::new(None),
        }))
    }

    /// Whether a change may be made now. Asks Proxmox only if the last renewal is too old.
    pub async fn check(&self) -> Result<(), Unconfirmed> {
        if let Some(lost) = self.0.lost.borrow().clone() {
            return Err(lost.into());
        }
        if self.age() < self.0.lease.trust { Ok(()) } else { self.renew().await }
    }

    /// Returns once the lock is lost.
    pub async fn lost(&self) -> LockLost {
        let mut told = self.0.lost.subscribe();
        let lost = told.wait_for(Option::is_some).await.ok().and_then(|lost| lost.clone());
        match lost {
            Some(lost) => lost,
            None => std::future::pending().await,
        }
    }

    /// Age of the last renewal: the larger one of two clocks, because one stops while the machine sleeps, and the other can be set.
    fn age(&self) -> Duration {
        let clock = self.0.clock;
        let (moment, unix) = self.state().confirmed;
        let slept = Duration::from_secs(time_of_day().saturating_sub(unix).saturating_sub(1));
        clock.moment().since(moment).max(slept)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, FenceState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a new comment, then checks whether another run has taken over the lock.
    async fn renew(&self) -> Result<(), Unconfirmed> {
        let _turn = self.0.turn.lock().await;
        if let Some(lost) = self.0.lost.borrow().clone() {
            return Err(lost.into());
        }
        let clock = self.0.clock;
        let began = (clock.moment(), time_of_day());
        let beat = {
            let mut state = self.state();
            state.beat += 1;
            state.beat
        };
        let FenceInner { pools, pool, holder, .. } = &*self.0;
        let comment = holder.comment(beat, &now());
        match pools.set_comment(pool, &comment).await {
            Ok(()) => {}
            Err(error) if error.is_not_found() => return Err(self.gone().await),
            Err(error) => return Err(Unconfirmed::Unanswered(error)),
        }
        let own = pools.list_since(pool, &comment).await.map_err(Unconfirmed::Unanswered)?;
        let Some(all) = own else {
            let is_there = pools.list().await.map_err(Unconfirmed::Unanswered)?;
            return if is_there.iter().any(|lock| lock.pool == *pool) {
                Err(Unconfirmed::Behind)
            } else {
                Err(self.gone().await)
            };
        };
        let own = all.iter().find(|lock| lock.pool == *pool).map_or(0, |lock| lock.number);
        if let Some(newer) = all.iter().find(|lock| lock.number > own) {
            let lost = match &newer.holder {
                Some(holder) => LockLost::TakenOver(Box::new(holder.clone())),
                None => LockLost::Removed(pool.to_string()),
            };
            return Err(self.lose(lost));
        }
        self.state().confirmed = began;
        Ok(())
    }

    /// The error for a pool that does not exist any more. It names the run that holds the lock now, if there is one.
    async fn gone(&self) -> Unconfirmed {
        let FenceInner { pools, pool, .. } = &*self.0;
        let others = pools.list().await.unwrap_or_default();
        let newer = others.into_iter().rev().find_map(|lock| lock.holder);
        self.lose(match newer {
            Some(holder) => LockLost::TakenOver(Box::new(holder)),
            None => LockLost::Removed(pool.to_string()),
        })
    }

    fn lose(&self, lost: LockLost) -> Unconfirmed {
        self.0.lost.send_replace(Some(lost.clone()));
        lost.into()
    }
}

/// Returns once one of the locks is lost; never if there are none.
pub async fn lost(fences: &[Fence]) -> LockLost {
    type LossFuture<'a> = Pin<Box<dyn Future<Output = LockLost> + Send + 'a>>;
    let mut waits: Vec<LossFuture<'_>> =
        fences.iter().map(|fence| Box::pin(fence.lost()) as LossFuture<'_>).collect();
    poll_fn(|context| {
        let lost = waits.iter_mut().find_map(|wait| match wait.as_mut().poll(context) {
            Poll::Ready(lost) => Some(lost),
            Poll::Pending => None,
        });
        lost.map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

/// A held lock. It is renewed until it is released; a lock that is not released is valid until its lease ends.
#[derive(Debug)]
pub struct ClusterLock {
    fence: Fence,
    renewing: JoinHandle<()>,
}

impl ClusterLock {
    pub(super) fn keep(fence: Fence) -> Self {
        let renewed = fence.clone();
        let renewing = tokio::spawn(async move {
            let renew = renewed.0.lease.renew;
            let mut pause = renew;
            loop {
                renewed.0.clock.sleep(pause).await;
                pause = match renewed.renew().await {
                    Ok(()) => renew,
                    Err(Unconfirmed::Lost(_)) => return,
                    Err(Unconfirmed::Unanswered(_) | Unconfirmed::Behind) => renew / 5,
                };
            }
        });
        Self { fence, renewing }
    }

    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Name of the pool, for messages.
    pub fn pool(&self) -> String {
        self.fence.0.pool.to_string()
    }

    /// Releases the lock. A lost lock is left to its new holder.
    pub async fn release(self) -> Result<(), PveError> {
        self.renewing.abort();
        let FenceInner { pools, pool, lost, .. } = &*self.fence.0;
        if lost.borrow().is_some() {
            return Ok(());
        }
        pools.delete(pool).await
    }
}

impl Drop for ClusterLock {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}
