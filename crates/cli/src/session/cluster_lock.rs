//! Cluster locks of a run in Proxmox. They keep runs on other machines and in other folders from changing the cluster.

use std::sync::Arc;

use talmox_clock::Clock;
use talmox_engine::cluster_lock::{
    self, ClusterLock, Fence, Holder, Lease, LockKey, LockRequest, TakeError,
};
use talmox_plan::ownership::ClusterMark;
use talmox_pve::Client;
use talmox_talos_config::random::Randomness as _;
use talmox_talos_config::time::UnixTime;

use super::Session;
use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::{environment, process};

/// Cluster locks that a run holds.
#[derive(Debug, Default)]
pub(crate) struct RunLocks(Vec<ClusterLock>);

impl RunLocks {
    pub(crate) fn fences(&self) -> Vec<Fence> {
        self.0.iter().map(ClusterLock::fence).collect()
    }

    /// Whether a lock is held, so that no other run can change the cluster.
    pub(crate) fn are_held(&self) -> bool {
        !self.0.is_empty()
    }

    pub(crate) async fn release(self, printer: &Printer) {
        for lock in self.0 {
            let pool = lock.pool();
            if let Err(error) = lock.release().await {
                printer.warn(&format!(
                    "the lock of this run stays in Proxmox (the pool {pool}): {error}. The next run takes it over, or \
                     `talmox unlock` removes it"
                ));
            }
        }
    }
}

impl Session {
    /// Keys of the locks of this cluster. A cluster without secrets is also locked by its name, because its first runs in
    /// two folders have no common cluster ID.
    pub(crate) fn lock_keys(&self) -> Vec<LockKey> {
        let name = self.is_draft.then(|| LockKey::of_name(&self.desired.cluster));
        let own = LockKey::of_cluster(&ClusterMark::of(&self.bundle.cluster.id));
        name.into_iter().chain([own]).collect()
    }

    /// Locks the cluster in Proxmox. If the token lacks the privilege, the cluster is not locked; the plan contains a
    /// warning about the privilege.
    pub(crate) async fn lock_cluster(
        &self,
        command: &str,
        printer: &Printer,
    ) -> Result<RunLocks, CommandError> {
        if self.is_own_lab() {
            return Ok(RunLocks::default());
        }
        let holder = holder(&self.desired.cluster, command);
        take(&self.pve, self.lock_keys(), &holder, printer).await.map_err(rejected)
    }
}

/// Takes all locks. After an error, the locks that were taken are released. If the token lacks the privilege, prints a
/// warning and returns the locks that were taken before.
pub(crate) async fn take(
    pve: &Client,
    keys: Vec<LockKey>,
    holder: &Holder,
    printer: &Printer,
) -> Result<RunLocks, TakeError> {
    let mut locks = RunLocks::default();
    for key in keys {
        let wait_printer = printer.clone();
        let request = LockRequest {
            pve: pve.clone(),
            key,
            holder: holder.clone(),
            lease: Lease::default(),
            judge: Arc::new(process::life),
            report_wait: Arc::new(move |holder| {
                wait_printer.say(&format!(
                    "waiting for the lock: held by {holder}; taken over if that run does not renew it within {} s",
                    Lease::default().end.as_secs()
                ));
            }),
        };
        match cluster_lock::take(request).await {
            Ok(lock) => locks.0.push(lock),
            Err(error @ (TakeError::Forbidden(_) | TakeError::Unsupported(_))) => {
                printer
                    .warn(&format!("{error}: make sure that no other run works on this cluster"));
                return Ok(locks);
            }
            Err(error) => {
                locks.release(printer).await;
                return Err(error);
            }
        }
    }
    Ok(locks)
}

/// Description of this run in the lock. Other runs show it in error messages.
pub(crate) fn holder(cluster: &str, command: &str) -> Holder {
    let mut run = [0; 8];
    environment::Kernel.fill(&mut run);
    let now = i64::try_from(Clock::real().unix()).unwrap_or(i64::MAX);
    Holder {
        cluster: cluster.to_owned(),
        command: command.to_owned(),
        user: process::user(),
        host: process::host(),
        pid: std::process::id(),
        run: run.iter().map(|byte| format!("{byte:02x}")).collect(),
        since: UnixTime::from_seconds(now).to_string(),
        process: process::own_mark(),
    }
}

pub(crate) fn rejected(error: TakeError) -> CommandError {
    let code = match &error {
        TakeError::Held(_) | TakeError::Unreadable { .. } | TakeError::Contended => {
            CommandCode::ClusterLocked
        }
        _ => CommandCode::LockFailed,
    };
    let hint = match &error {
        TakeError::Held(_) => {
            "wait for it to end, or stop it there with Ctrl-C. If that run was killed, run `talmox unlock` to remove its lock"
        }
        TakeError::Unreadable { .. } => {
            "upgrade talmox: a newer version may hold the lock. If no run works on the cluster, run `talmox unlock` to remove it"
        }
        TakeError::Contended => "run the same command again",
        _ => "check that Proxmox answers, then run the same command again",
    };
    CommandError::failed(code, "nothing was changed").because(error).hint(hint)
}
