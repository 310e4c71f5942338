//! A held cluster lock: its renewal in the background, and the check before every change.
//!
//! A check reads the list of locks. So a run notices before its next change, or at most `Lease::fresh` later, that its lock
//! was removed or taken over. Reading is enough only while the last renewal is recent. If this run was suspended, another run
//! may have assumed that this run has ended, and may be about to create its own lock. Only a renewal shows the other run that
//! this run continues. So after a long time without renewal, the lock is renewed and read before the next change.

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

use super::pools::{HeldLock, LockPools};
use super::{Holder, Lease};

/// The time of day, from a new clock. An existing clock stops while the machine sleeps, and is behind afterwards.
pub(super) fn time_of_day() -> u64 {
    Clock::real().unix()
}

/// The time in UTC, as text.
pub(super) fn now() -> String {
    UnixTime::from_seconds(i64::try_from(time_of_day()).unwrap_or(i64::MAX)).to_string()
}

/// Reason why the run no longer holds its lock.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockLost {
    #[error("the lock of this run was taken over by {0}")]
    TakenOver(Box<Holder>),
    #[error("the lock of this run was removed from Proxmox (the pool {0})")]
    Removed(String),
    #[error("the comment of the lock of this run was replaced in Proxmox (the pool {0})")]
    Replaced(String),
    #[error("the pool {0} in Proxmox locks the cluster too, and does not name a known run")]
    Disputed(String),
}

/// Reason why the run must not make a change now.
#[derive(Debug, thiserror::Error)]
pub enum Unconfirmed {
    #[error(transparent)]
    Lost(#[from] LockLost),
    /// Proxmox did not answer, so it is not known whether the run still holds its lock. A retry may succeed.
    #[error("Proxmox does not confirm the lock of this run")]
    Unanswered(#[source] PveError),
    #[error("Proxmox does not show the lock of this run as it was renewed")]
    Behind,
    #[error("the answer of Proxmox about the lock of this run is too old")]
    Late,
}

/// Checks whether the run still holds its lock. All clones check the same lock.
#[derive(Clone, Debug)]
pub struct Fence(Arc<FenceInner>);

#[derive(Debug)]
struct FenceInner {
    pools: LockPools,
    pool: PoolId,
    holder: Holder,
    lease: Lease,
    /// The clock of all moments in `state`.
    clock: Clock,
    state: Mutex<FenceState>,
    /// Mutex that is held during a renewal and during a read. A renewal must read the comment that it wrote, and concurrent
    /// changes share one read.
    turn: tokio::sync::Mutex<()>,
    lost: watch::Sender<Option<LockLost>>,
}

#[derive(Debug)]
struct FenceState {
    beat: u64,
    /// Start of the last renewal that succeeded.
    renewed: Stamp,
    /// Start of the last read that showed the lock as held.
    shown: Stamp,
}

/// A point in time on a monotonic clock, and as time of day, which continues while the machine sleeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    moment: Moment,
    unix: u64,
}

impl Stamp {
    pub(super) fn now(clock: Clock) -> Self {
        Self { moment: clock.moment(), unix: time_of_day() }
    }

    /// The larger of the ages on the two clocks, because the monotonic clock stops while the machine sleeps, and the time of
    /// day can be set back.
    fn age(self, clock: Clock) -> Duration {
        let slept = Duration::from_secs(time_of_day().saturating_sub(self.unix).saturating_sub(1));
        clock.moment().since(self.moment).max(slept)
    }
}

impl Fence {
    pub(super) fn new(
        pools: LockPools,
        pool: PoolId,
        holder: Holder,
        lease: Lease,
        clock: Clock,
        taken: Stamp,
    ) -> Self {
        Self(Arc::new(FenceInner {
            pools,
            pool,
            holder,
            lease,
            clock,
            state: Mutex::new(FenceState { beat: 0, renewed: taken, shown: taken }),
            turn: tokio::sync::Mutex::default(),
            lost: watch::Sender::new(None),
        }))
    }

    /// Returns an error if a change must not be made now. Changes within `Lease::fresh` share one read of the lock.
    pub async fn check(&self) -> Result<(), Unconfirmed> {
        if self.is_fresh()? {
            return Ok(());
        }
        let _turn = self.0.turn.lock().await;
        // Another change may have read the lock while this one waited for the mutex.
        if self.is_fresh()? { Ok(()) } else { self.ask().await }
    }

    /// Returns an error if a change must not be made now. Always reads the lock.
    pub async fn check_now(&self) -> Result<(), Unconfirmed> {
        let _turn = self.0.turn.lock().await;
        self.ask().await
    }

    /// Returns once the lock is lost.
    pub async fn lost(&self) -> LockLost {
        let mut losses = self.0.lost.subscribe();
        let lost = losses.wait_for(Option::is_some).await.ok().and_then(|lost| lost.clone());
        match lost {
            Some(lost) => lost,
            None => std::future::pending().await,
        }
    }

    /// Returns an error if the lock was lost. A lost lock stays lost, even if Proxmox lists it again later.
    fn not_lost(&self) -> Result<(), Unconfirmed> {
        match self.0.lost.borrow().clone() {
            Some(lost) => Err(lost.into()),
            None => Ok(()),
        }
    }

    fn is_fresh(&self) -> Result<bool, Unconfirmed> {
        self.not_lost()?;
        let FenceInner { lease, clock, .. } = &*self.0;
        let (renewed, shown) = self.last();
        Ok(shown.age(*clock) < lease.fresh && renewed.age(*clock) < lease.trust)
    }

    /// The times of the last renewal and of the last read.
    fn last(&self) -> (Stamp, Stamp) {
        let state = self.state();
        (state.renewed, state.shown)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, FenceState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the lock, and renews it if its last renewal is old. The caller holds the mutex `turn`.
    async fn ask(&self) -> Result<(), Unconfirmed> {
        self.not_lost()?;
        let FenceInner { lease, clock, .. } = &*self.0;
        if self.last().0.age(*clock) < lease.trust {
            let began = Stamp::now(*clock);
            self.read().await?;
            self.state().shown = began;
        } else {
            self.renew_in_turn().await?;
        }
        // The process may have been suspended while it waited for the answer. Half of the lease must be left, because the
        // change itself takes time.
        if self.last().0.age(*clock) > lease.end / 2 { Err(Unconfirmed::Late) } else { Ok(()) }
    }

    async fn renew(&self) -> Result<(), Unconfirmed> {
        let _turn = self.0.turn.lock().await;
        self.not_lost()?;
        self.renew_in_turn().await
    }

    /// Reads the lock, writes a new comment, then checks whether another run has taken over the lock.
    async fn renew_in_turn(&self) -> Result<(), Unconfirmed> {
        let FenceInner { pools, pool, holder, clock, .. } = &*self.0;
        let began = Stamp::now(*clock);
        // A comment that another user replaced is not overwritten.
        self.read().await?;
        let beat = {
            let mut state = self.state();
            state.beat += 1;
            state.beat
        };
        let comment = holder.comment(beat, &now());
        let all = match pools.set_comment(pool, &comment).await {
            Ok(()) => pools.list_since(pool, &comment).await.map_err(Unconfirmed::Unanswered)?,
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(Unconfirmed::Unanswered(error)),
        };
        let Some(all) = all else {
            self.read().await?;
            return Err(Unconfirmed::Behind);
        };
        self.judge(&all)?;
        let mut state = self.state();
        state.renewed = began;
        state.shown = began;
        Ok(())
    }

    async fn read(&self) -> Result<(), Unconfirmed> {
        let FenceInner { pools, pool, .. } = &*self.0;
        let all = pools.list_with(pool).await.map_err(Unconfirmed::Unanswered)?;
        self.judge(&all)
    }

    /// Checks whether this run still holds its lock. `all` contains all locks of the cluster. If the run does not hold its
    /// lock, marks the lock as lost and returns an error.
    fn judge(&self, all: &[HeldLock]) -> Result<(), Unconfirmed> {
        let FenceInner { pool, holder, .. } = &*self.0;
        let is_other = |lock: &&HeldLock| !lock.is_of(&holder.run) && lock.pool != *pool;
        let newest = all.iter().filter(is_other).max_by_key(|lock| lock.number);
        let Some(own) = all.iter().find(|lock| lock.pool == *pool) else {
            return Err(self.lose(match newest.and_then(|lock| lock.holder.clone()) {
                Some(by) => LockLost::TakenOver(Box::new(by)),
                None => LockLost::Removed(pool.to_string()),
            }));
        };
        if !own.is_of(&holder.run) {
            return Err(self.lose(LockLost::Replaced(pool.to_string())));
        }
        let Some(newer) = newest.filter(|lock| lock.number > own.number) else { return Ok(()) };
        Err(self.lose(match &newer.holder {
            Some(by) => LockLost::TakenOver(Box::new(by.clone())),
            None => LockLost::Disputed(newer.pool.to_string()),
        }))
    }

    fn lose(&self, lost: LockLost) -> Unconfirmed {
        self.0.lost.send_replace(Some(lost.clone()));
        lost.into()
    }
}

/// Returns as soon as one of the locks is lost. Never returns if `fences` is empty.
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

/// A held lock, which is renewed in the background until it is released. A lock that is not released stays valid until its
/// lease ends.
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
                    Err(_) => renew / 5,
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

    /// Releases the lock. If the run lost its lock, or another run owns the pool now, the pool is not deleted.
    pub async fn release(self) -> Result<(), PveError> {
        self.renewing.abort();
        let FenceInner { pools, pool, holder, lost, .. } = &*self.fence.0;
        if lost.borrow().is_some() {
            return Ok(());
        }
        pools.delete_of(pool, &holder.run).await
    }
}

impl Drop for ClusterLock {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}
