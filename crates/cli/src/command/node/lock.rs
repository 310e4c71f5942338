//! Cluster lock of a command that changes one node.
//!
//! A command can change a node without Proxmox, for example while Proxmox is down. Then the cluster is not locked, and a
//! warning is printed.

use std::path::Path;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_engine::cluster_lock::{self, LockKey, TakeError, Unconfirmed};
use talmox_plan::ownership::ClusterMark;

use super::super::client::bundle_of;
use super::access::Target;
use crate::choose::Chosen;
use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::rehearsal;
use crate::session::cluster_lock::{holder, rejected, take as take_locks};
use crate::session::{RunLocks, proxmox};

/// Timeout for the first answer of Proxmox. It is short because the command works without Proxmox.
const FIRST_ANSWER: Duration = Duration::from_secs(10);

/// Locks the cluster of the node. Returns an error if another run holds the lock.
pub(super) async fn take(
    target: &Target,
    lab_at: Option<&Path>,
    printer: &Printer,
) -> Result<RunLocks, CommandError> {
    let Some(chosen) = target.cluster() else { return Ok(RunLocks::default()) };
    match try_take(chosen, lab_at, printer).await {
        Ok(Ok(locks)) => Ok(locks),
        Ok(Err(
            error @ (TakeError::Held(_) | TakeError::Unreadable { .. } | TakeError::Contended),
        )) => Err(rejected(error)),
        Ok(Err(error)) => {
            warn(
                &CommandError::failed(CommandCode::LockFailed, "Proxmox does not lock it")
                    .because(error),
                printer,
            );
            Ok(RunLocks::default())
        }
        Err(error) => {
            warn(&error, printer);
            Ok(RunLocks::default())
        }
    }
}

/// Reads the locks right before the change. A lost lock is an error, because another run may be changing the cluster. If
/// Proxmox does not answer, a warning is printed.
pub(super) async fn confirm(locks: &RunLocks, printer: &Printer) -> Result<(), CommandError> {
    for fence in locks.fences() {
        match fence.check_now().await {
            Ok(()) => {}
            Err(Unconfirmed::Lost(lost)) => {
                return Err(CommandError::failed(CommandCode::ClusterLocked, "nothing was sent")
                    .because(lost)
                    .hint("find out which run works on the cluster; when it has ended, run the same command"));
            }
            Err(error) => warn(
                &CommandError::failed(CommandCode::LockFailed, "the lock is not confirmed")
                    .because(error),
                printer,
            ),
        }
    }
    Ok(())
}

fn warn(error: &CommandError, printer: &Printer) {
    printer.warn(&format!(
        "the cluster is not locked: {}. Make sure that no `up` or `destroy` runs on it",
        error.chain()
    ));
}

async fn try_take(
    chosen: &Chosen,
    lab_at: Option<&Path>,
    printer: &Printer,
) -> Result<Result<RunLocks, TakeError>, CommandError> {
    let bundle = bundle_of(chosen)?;
    let lab = lab_at.map(rehearsal::join).transpose()?;
    let clock = lab.as_ref().map_or_else(Clock::real, |lab| lab.clock);
    let (pve, _) = proxmox::client(chosen, lab.as_ref(), clock, printer)?;
    let key = LockKey::of_cluster(&ClusterMark::of(&bundle.cluster.id));
    let asked = Clock::real().timeout(FIRST_ANSWER, cluster_lock::held(&pve, &key)).await;
    match asked {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => return Err(proxmox::unreachable(error)),
        Err(_) => {
            return Err(CommandError::failed(CommandCode::LockFailed, "Proxmox does not answer"));
        }
    }
    let holder = holder(&chosen.cluster().name, "node apply");
    Ok(take_locks(&pve, vec![key], &holder, printer).await)
}
