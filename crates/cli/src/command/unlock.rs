//! `talmox unlock`

use std::sync::Arc;

use clap::Args;
use serde_json::json;
use talmox_clock::Clock;
use talmox_engine::cluster_lock::{
    self, ClusterLock, HeldLock, Lease, Life, LockKey, LockRequest, TakeError,
};
use talmox_pve::PveError;

use crate::args::{Format, Global};
use crate::command::Outcome;
use crate::command_code::CommandCode;
use crate::error::{CommandError, Exit};
use crate::printer::Printer;
use crate::rehearsal::RehearsalArgs;
use crate::session::cluster_lock::{holder, rejected};
use crate::session::{NoSecrets, Session};
use crate::{confirm, process, runtime};

const AFTER_HELP: &str = "\
Examples:
  talmox unlock dev          show the holder of the lock, ask, and remove it
  talmox unlock dev --yes    in scripts: without asking";

/// Remove the cluster lock of a run that was killed
///
/// `up`, `destroy`, `template create`, and the commands of `node` and `etcd` that make changes lock the cluster in Proxmox, so that no run
/// from another machine or folder changes it at the same time. The lock is a pool below the pool `talmox-lock`. A run that was killed leaves its
/// lock behind. The next run on the same machine takes that lock over at once; a run on another machine takes it over a minute after its last
/// renewal. This command removes the lock earlier. It also removes a lock that talmox cannot read.
///
/// If the process of the lock is alive on this machine, nothing is removed. If talmox cannot find out whether it is alive, for example because it runs
/// on another machine, the command takes the lock over and holds it for 25 seconds before it removes it. A run that is still alive then stops before
/// its next change, and a request that it has already sent can end. Tasks that run in Proxmox continue.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct UnlockArgs {
    /// Cluster whose lock is removed [default: the only cluster of the inventory]
    #[arg(value_name = "CLUSTER")]
    cluster: Option<String>,

    /// Remove the lock without asking for confirmation
    #[arg(long, short)]
    yes: bool,

    #[command(flatten)]
    rehearsal: RehearsalArgs,
}

pub(crate) fn run(args: &UnlockArgs, global: &Global, printer: &Printer) -> Outcome {
    runtime::run(async {
        let cluster = args.cluster.as_deref();
        // A first run in another folder may hold the lock, so the cluster may have no secrets here.
        let session =
            Session::open_bare(global, cluster, &args.rehearsal, printer, NoSecrets::Pretend)
                .await?;
        let ended = unlock(args, &session, printer).await;
        session.close().await?;
        ended
    })
}

async fn unlock(args: &UnlockArgs, session: &Session, printer: &Printer) -> Outcome {
    let mut locks: Vec<(LockKey, HeldLock)> = vec![];
    for key in session.lock_keys() {
        let held = cluster_lock::held(&session.pve, &key).await.map_err(unanswered)?;
        locks.extend(held.into_iter().map(|lock| (key.clone(), lock)));
    }
    for (_, lock) in &locks {
        let pool = &lock.pool;
        match &lock.holder {
            Some(holder) => printer.say_always(&format!("{pool}: {holder}")),
            None => printer
                .say_always(&format!("{pool}: its name and comment are not those of a known run")),
        }
        if let Some(holder) = &lock.holder
            && process::life(holder) == Life::Alive
        {
            return Err(CommandError::failed(
                CommandCode::ClusterLocked,
                format!("nothing was changed: {holder} still runs"),
            )
            .hint(format!("stop it with Ctrl-C, or with: kill {}", holder.pid)));
        }
    }
    if locks.is_empty() {
        printer.say("The cluster is not locked.");
        return report(session, 0, printer);
    }
    if !args.yes && !session.is_own_lab() {
        confirm::require_yes("Remove the lock? Only do this if that run has ended.")?;
    }
    let taken = take_over(&locks, session).await?;
    let is_dead = |lock: &HeldLock| {
        lock.holder.as_ref().is_some_and(|holder| process::life(holder) == Life::Dead)
    };
    if !locks.iter().all(|(_, lock)| is_dead(lock)) {
        let time = Lease::default().trust;
        printer.say(&format!(
            "The lock is taken over. Waiting {} s, so that a request of its run can end…",
            time.as_secs()
        ));
        Clock::real().sleep(time).await;
    }
    release(taken).await.map_err(unanswered)?;
    printer.say("The lock is removed.");
    report(session, locks.len(), printer)
}

/// Takes over these locks, so that no other run can start while the run that lost a lock may still make a change.
async fn take_over(
    locks: &[(LockKey, HeldLock)],
    session: &Session,
) -> Result<Vec<ClusterLock>, CommandError> {
    let holder = holder(&session.desired.cluster, "unlock");
    let mut taken = vec![];
    for key in session.lock_keys() {
        let of_key = locks.iter().filter(|(one, _)| *one == key);
        let shown: Vec<HeldLock> = of_key.map(|(_, lock)| lock.clone()).collect();
        if shown.is_empty() {
            continue;
        }
        let request = LockRequest {
            pve: session.pve.clone(),
            key,
            holder: holder.clone(),
            lease: Lease::default(),
            // Only the locks that were shown to the user are removed, so every other lock counts as held by a live run.
            judge: Arc::new(|_| Life::Alive),
            report_wait: Arc::new(|_| {}),
        };
        match cluster_lock::take_over(request, &shown).await {
            Ok(lock) => taken.push(lock),
            Err(error) => {
                // Only the first error is reported, so an error of the release is ignored.
                release(taken).await.ok();
                return Err(match error {
                    TakeError::Pve(error) | TakeError::Forbidden(error) => unanswered(error),
                    error => rejected(error),
                });
            }
        }
    }
    Ok(taken)
}

async fn release(locks: Vec<ClusterLock>) -> Result<(), PveError> {
    for lock in locks {
        lock.release().await?;
    }
    Ok(())
}

fn unanswered(error: PveError) -> CommandError {
    let hint = "the token needs Pool.Allocate and Pool.Audit on /pool/talmox-lock: `talmox init --role` prints the commands";
    CommandError::failed(CommandCode::LockFailed, "cannot read or remove the lock in Proxmox")
        .because(error)
        .hint(hint)
}

/// Prints the JSON result.
fn report(session: &Session, removed: usize, printer: &Printer) -> Outcome {
    if printer.format == Format::Json {
        let result = json!({"cluster": session.desired.cluster, "removed": removed});
        printer.result(&format!("{result}\n"))?;
    }
    Ok(Exit::Fine)
}
