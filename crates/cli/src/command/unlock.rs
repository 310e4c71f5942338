//! `talmox unlock`

use clap::Args;
use serde_json::json;
use talmox_engine::cluster_lock::{self, HeldLock, Life, LockKey};

use crate::args::{Format, Global};
use crate::command::Outcome;
use crate::command_code::CommandCode;
use crate::error::{CommandError, Exit};
use crate::printer::Printer;
use crate::rehearsal::RehearsalArgs;
use crate::session::{NoSecrets, Session};
use crate::{confirm, process, runtime};

const AFTER_HELP: &str = "\
Examples:
  talmox unlock dev          show the holder of the lock, ask, and remove it
  talmox unlock dev --yes    in scripts: without asking";

/// Remove the cluster lock of a run that was killed
///
/// `up`, `destroy`, `template create` and `node apply` lock a cluster in Proxmox with a pool below `talmox-lock`, so
/// that no run from another machine or folder changes it at the same time. A killed run leaves its lock behind. The
/// next run on the same machine takes it over at once; a run on another machine takes it over after the lock was not
/// renewed for a minute. This command removes it earlier. A run that lost its lock stops before its next change.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct UnlockArgs {
    /// Cluster [default: the only cluster of the inventory]
    #[arg(value_name = "CLUSTER")]
    cluster: Option<String>,

    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,

    #[command(flatten)]
    rehearsal: RehearsalArgs,
}

pub(crate) fn run(args: &UnlockArgs, global: &Global, printer: &Printer) -> Outcome {
    runtime::run(async {
        let cluster = args.cluster.as_deref();
        // A cluster without secrets may be locked by a first run from another folder.
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
            None => printer.say_always(&format!("{pool}: its comment names no run")),
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
    for (key, lock) in &locks {
        cluster_lock::break_lock(&session.pve, key, lock).await.map_err(unanswered)?;
    }
    printer.say("The lock is removed.");
    report(session, locks.len(), printer)
}

fn unanswered(error: talmox_pve::PveError) -> CommandError {
    let hint = "the token needs Pool.Allocate and Pool.Audit on /pool/talmox-lock: `talmox init --role` prints the commands";
    CommandError::failed(CommandCode::LockFailed, "cannot look at the lock in Proxmox")
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
