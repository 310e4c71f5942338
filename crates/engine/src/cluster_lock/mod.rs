//! The cluster lock in Proxmox. It keeps two machines, or two folders of one machine, from changing one cluster at the same
//! time.
//!
//! A held lock is a pool, `talmox-lock/KEY-N-RUN`. Its comment describes the run that holds the lock. A token with few
//! privileges can create a pool atomically for all hosts. A pool does not depend on a single host, and does not affect any
//! VM, storage or backup. No other object in Proxmox has these properties. Creating a pool needs only `Pool.Allocate` on
//! `/pool/talmox-lock`.
//!
//! Proxmox has no compare-and-swap for pools, so the lock does not depend on one. RUN is a random number of the run, so no
//! two runs have a pool of the same name. A request for the pool of one run cannot change or delete the lock of another run,
//! even if Proxmox executes the request late.
//!
//! - **Take**: list the lock pools of the key. All of their runs must have ended. Create the pool of this run, with a larger
//!   N than all of them, and list again. If the second list contains a pool that is new or has changed since the first list,
//!   delete the new pool of this run. Two runs cannot both succeed, because Proxmox serializes changes of pools. The run
//!   whose create request is executed later lists the pool of the earlier run, unless the earlier run has deleted it. If both
//!   runs list each other's pool, both delete their own, and retry after a random time.
//! - **Renew**: check that the pool still belongs to this run, write the comment, then list. If another run assumed wrongly
//!   that this run has ended, there are two cases. Either this run changes its comment before the other run lists again, and
//!   the other run gives up. Or this run lists the pool of the other run, or does not find its own pool, and stops. A lost
//!   lock stays lost.
//! - **Check**, before every change: check that the pool still belongs to this run and that no newer pool exists. See
//!   `fence.rs`.
//! - **Delete**: a run deletes pools that it created and that still belong to it. While it holds the lock, it also deletes
//!   pools of runs that have ended, or that have ended according to the user.
//!
//! Pools with names of older builds, `talmox-lock/KEY-N`, count as locks. Pools with names in any other format count as locks
//! too, and only `talmox unlock` removes them.
//!
//! Clocks of different machines are never compared. A run counts as ended if its process has provably ended. It also counts
//! as ended if the comment of its pool does not change for a whole lease, on the clock of the machine that reads the pool.

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
    /// Key of a cluster. It depends only on the secrets of the cluster, because copies of an inventory have the same secrets
    /// and may have other names.
    pub fn of_cluster(mark: &ClusterMark) -> Self {
        // Proxmox VE 9 rejects names that start with a digit.
        Self(format!("c{mark}"))
    }

    /// Key of a cluster that has no secrets yet, by its name. Without this lock, two first runs at the same time would
    /// generate two different secrets bundles.
    pub fn of_name(name: &str) -> Self {
        Self(format!("n{}", ClusterMark::of(&format!("name of a new cluster {name}"))))
    }
}

/// Times that determine how long a lock is valid without renewal. All of them are in real time, also in a lab, because they
/// cover delays of processes and networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Pause between two renewals.
    pub renew: Duration,
    /// Time for which the result of one read of the lock is used for further changes.
    pub fresh: Duration,
    /// Time after the last renewal in which reading the lock is enough before a change. After this time, the lock must be
    /// renewed before a change. At most half of `end`, because the rest of the lease is for the change itself.
    pub trust: Duration,
    /// Time without a change of the comment after which the run counts as ended.
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
    /// The process runs on another machine, or this machine cannot identify processes.
    Unknown,
}

/// Function that checks whether the process of a holder still runs.
pub type JudgeLife = Arc<dyn Fn(&Holder) -> Life + Send + Sync>;
/// Function that reports that talmox waits for the holder of a lock to renew it.
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

/// Reason why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    #[error("the cluster is in use by {0}")]
    Held(Box<Holder>),
    /// The name or comment of the lock has a format that this version of talmox does not write. Or the lock has the largest
    /// possible number, so that no later lock can have a larger one.
    #[error(
        "the pool {pool} in Proxmox locks the cluster, and its name and comment are not those of a run that this version of talmox knows"
    )]
    Unreadable { pool: String },
    #[error(
        "the token may not create the pool {PARENT}/…, so talmox cannot lock the cluster against runs on other machines"
    )]
    Forbidden(#[source] PveError),
    /// Proxmox VE before 8.1 does not support nested pools.
    #[error(
        "this release of Proxmox does not support nested pools such as {PARENT}/…, so talmox cannot lock the cluster against runs on other machines"
    )]
    Unsupported(#[source] PveError),
    #[error("other runs try to take the lock at the same time")]
    Contended,
    #[error("lock the cluster in Proxmox")]
    Pve(#[from] PveError),
}
