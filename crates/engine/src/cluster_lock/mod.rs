//! The cluster lock in Proxmox: two machines, or two folders of one machine, never change one cluster at the same time.
//!
//! A held lock is a pool, `talmox-lock/KEY-N-RUN`, whose comment says who holds it. Pools are the one object that a narrow
//! token can create atomically for all hosts, that is on no host which can go down, and that no VM, storage or backup is
//! affected by. Creating one needs `Pool.Allocate` on `/pool/talmox-lock`, and nothing else.
//!
//! Pools have no compare-and-swap, so nothing depends on one. RUN is a random number of the run: no two runs ever have a pool of the
//! same name, so a request that names the pool of a run cannot change or delete the lock of another run, however late it is sent.
//!
//! - **Take**: list the lock pools of the key. None may be alive. Create the pool of this run, with a larger N than all of them, list
//!   again, and give up the new pool if there is any other than those listed and judged before. Two runs cannot both
//!   succeed: Proxmox serializes changes of pools, so one create is the later one, and the list that its run reads next contains
//!   the pool of the earlier one, unless that run has given it up. If both see each other, both give up, and retry after a random time.
//! - **Renew**: read that the pool is still of this run, write the comment, then list. A run that was judged dead either changes its
//!   comment before the new holder lists again, which then gives up; or it sees the pool of the new holder, or that its own is
//!   gone, and stops. A lost lock stays lost.
//! - **Check**, before every change: read that the pool is still of this run and that no newer one exists. See `fence.rs`.
//! - **Delete**: only pools that the caller created and that are still its own; or those that it has judged dead, or a person has
//!   declared dead, while it holds the lock.
//!
//! Names of older builds, `talmox-lock/KEY-N`, count as locks. Names in any other format are locks that only `talmox unlock` removes.
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
pub use pools::{HeldLock, held};
pub use take::{take, take_over};

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
    /// Time for which one read of the lock counts for further changes.
    pub fresh: Duration,
    /// Time after its last renewal in which a read is enough, and the lock need not be renewed before a change. At most half of `end`: the
    /// rest is for the change itself.
    pub trust: Duration,
    /// Time without a change of the comment after which the holder counts as dead.
    pub end: Duration,
}

impl Default for Lease {
    fn default() -> Self {
        Self {
            renew: Duration::from_secs(15),
            fresh: Duration::from_secs(2),
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
    /// The name or the comment is not one that this version of talmox writes, or no lock can be numbered after it.
    #[error(
        "the pool {pool} in Proxmox locks the cluster, and its name and comment are not those of a run that this version of talmox knows"
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
