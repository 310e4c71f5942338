//! The cluster lock in Proxmox: two machines, or two folders of one machine, never change one cluster at the same time.
//!
//! A held lock is a pool, `talmox-lock/KEY-N`, whose comment says who holds it. Pools are the one object that a narrow
//! token can create atomically for all hosts, that is on no host which can go down, and that no VM, storage or backup is
//! affected by. Creating one needs `Pool.Allocate` on `/pool/talmox-lock`, and nothing else.
//!
//! Pools have no compare-and-swap, so nothing depends on one:
//!
//! - **Take**: list the lock pools of the key. None may be alive. Create number N+1 (Proxmox lets one of several callers
//!   succeed), list again, and give up the new pool if there is any other than those listed and judged before. Of two
//!   callers, the one whose create came second always sees the pool of the first.
//! - **Renew**: write the comment, then list. A run that was judged dead either changes its comment before the new holder
//!   lists again, which then gives up; or it sees the pool of the new holder, and stops.
//! - **Delete**: only pools that the caller made, or judged dead while it holds the lock. Numbers grow, so the pool of a
//!   new holder never has the name of the one that is deleted.
//!
//! Clocks of different machines are never compared: a holder is dead if its process is provably gone, or if its comment has
//! not changed for a whole lease on the clock of the machine that looks.

mod fence;
mod holder;
mod pools;
mod take;

use std::sync::Arc;
use std::time::Duration;

use talmox_plan::ownership::ClusterMark;
use talmox_plan::rights::lock_pool::PARENT;
use talmox_pve::{Client, PveError};

pub use fence::{ClusterLock, Fence, LockLost, Unconfirmed, lost};
pub use holder::{Holder, ProcessMark};
pub use pools::{HeldLock, break_lock, held};
pub use take::take;

/// Key of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockKey(String);

impl LockKey {
    /// A cluster, whatever its name and inventory: two copies of an inventory share its secrets.
    pub fn of_cluster(mark: &ClusterMark) -> Self {
        // A name that starts with a digit is rejected by Proxmox VE 9.
        Self(format!("c{mark}"))
    }

    /// The name of a cluster that has no secrets yet: two first runs would give it two identities.
    pub fn of_name(name: &str) -> Self {
        Self(format!("n{}", ClusterMark::of(&format!("name of a new cluster {name}"))))
    }
}

/// Time for which a lock is valid without renewal. In real time, also in a lab: it concerns processes and networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Pause between two renewals.
    pub renew: Duration,
    /// Time after its last renewal in which a holder may make changes. Shorter than `end` by the longest time of a request.
    pub trust: Duration,
    /// Time without a change of the comment after which the holder counts as dead.
    pub end: Duration,
}

impl Default for Lease {
    fn default() -> Self {
        Self {
            renew: Duration::from_secs(15),
            trust: Duration::from_secs(25),
            end: Duration::from_mins(1),
        }
    }
}

/// Whether the process of a holder still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    Dead,
    Alive,
    /// It runs on another machine, or this machine cannot identify processes.
    Unknown,
}

/// Checks whether a process of this machine runs.
pub type JudgeLife = Arc<dyn Fn(&Holder) -> Life + Send + Sync>;
/// Reports that talmox waits for a renewal of a lock by its holder.
pub type ReportWait = Arc<dyn Fn(&Holder) + Send + Sync>;

/// Parameters of taking a lock.
#[derive(Clone)]
pub struct LockRequest {
    pub pve: Client,
    pub key: LockKey,
    pub holder: Holder,
    pub lease: Lease,
    pub judge: JudgeLife,
    pub report_wait: ReportWait,
}

impl std::fmt::Debug for LockRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { key, holder, lease, .. } = self;
        f.debug_struct("LockRequest")
            .field("key", key)
            .field("holder", holder)
            .field("lease", lease)
            .finish_non_exhaustive()
    }
}

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    #[error("the cluster is in use by {0}")]
    Held(Box<Holder>),
    /// The comment is not one that this version of talmox writes.
    #[error(
        "the pool {pool} in Proxmox locks the cluster, and its comment does not name a run that this version of talmox knows"
    )]
    Unreadable { pool: String },
    #[error(
        "the token may not create the pool {PARENT}/…, which locks the cluster for other machines"
    )]
    Forbidden(#[source] PveError),
    /// Proxmox VE before 8.1 has no pools in pools.
    #[error(
        "this release of Proxmox cannot have a pool {PARENT}/…, which locks the cluster for other machines"
    )]
    Unsupported(#[source] PveError),
    #[error("other runs try to take the lock at the same time")]
    Contended,
    #[error("lock the cluster in Proxmox")]
    Pve(#[from] PveError),
}
