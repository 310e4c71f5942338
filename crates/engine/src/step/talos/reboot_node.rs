//! Reboots a node.

use talmox_clock::{Wait, WaitError};
use talmox_plan::plan::{RebootNode, TalosNode};
use talmox_talos_api::client::{Actor, RebootMode};
use talmox_talos_api::wait::machine_ready;
use talmox_talos_api::{Client, Follow, FollowError, Look, LookError, TalosError};

use super::machine::known_member;
use super::quorum::{await_spare, give_up_leadership};
use super::{Awaited, ExplainedWait, answer_of, hint, locate, or_wait};
use crate::step::{Done, RunStep, StepCode, StepContext, StepError};
use crate::timeouts::LOST_REBOOT;

impl RunStep for RebootNode {
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        let client = own_node(&self.node, context).await?;
        reboot_safely(&self.node, &client, &self.control_planes, context).await?;
        Ok(Done::Acted)
    }
}

/// Reboots a node as soon as etcd can keep its quorum without it, and waits until the node runs again.
pub(super) async fn reboot_safely(
    node: &TalosNode,
    client: &Client,
    control_planes: &[TalosNode],
    context: &StepContext,
) -> Result<(), StepError> {
    await_spare(node, control_planes, context).await?;
    give_up_leadership(client, node, control_planes, context).await?;
    let (follow, boot_id) = prepare(node, client, context).await?;
    let what = format!("{} to reboot", node.name);
    let mut wait = context.cancellable_wait(context.deadline.clone(), what);
    let ended = match reboot(node, client, &boot_id, &mut wait, context).await? {
        Some(actor) => context.wait(Box::pin(follow.to_running(&actor, &mut wait))).await?,
        // The actor of the reboot is not known, because the answer was lost.
        None => context.wait(await_ready(client, &mut wait)).await?,
    };
    ended.map_err(|error| not_running(node, error))
}

/// Waits until the node answers with its own identity, and returns a client of it.
pub(super) async fn own_node(node: &TalosNode, context: &StepContext) -> Result<Client, StepError> {
    let mut wait = ExplainedWait::new(context, answer_of(&node.name)).about([&node.own]);
    loop {
        let address = or_wait!(wait, context.wait(locate(node, context)).await?);
        let client = context.cluster()?.client(address)?;
        let () = or_wait!(wait, context.wait(known_member(&client, node, address)).await??);
        return Ok(client);
    }
}

/// Reads the boot ID, which proves later that the node has rebooted.
async fn prepare(
    node: &TalosNode,
    client: &Client,
    context: &StepContext,
) -> Result<(Follow, String), StepError> {
    let name = &node.name;
    let awaited = Awaited {
        failure: format!("{name} does not report its boot ID"),
        what: format!("{name} to report its boot ID"),
    };
    let mut wait = ExplainedWait::new(context, awaited).about([&node.own]);
    loop {
        match context.wait(read_boot(client)).await? {
            Ok(found) => return Ok(found),
            Err(error) if error.may_pass() => wait.not_yet(error.reason()).await?,
            Err(error) => return Err(rejected(node, error)),
        }
    }
}

async fn read_boot(client: &Client) -> Result<(Follow, String), TalosError> {
    Ok((Follow::prepare(client).await?, client.boot_id().await?))
}

/// Asks the node to reboot. Returns the actor of the reboot, or None if the answer was lost and the node rebooted.
async fn reboot(
    node: &TalosNode,
    client: &Client,
    boot_id: &str,
    wait: &mut Wait<'_>,
    context: &StepContext,
) -> Result<Option<Actor>, StepError> {
    loop {
        let sent = context.act(async { Ok(client.reboot(RebootMode::Default).await) }).await?;
        let reason = match sent {
            Ok(actor) => return Ok(Some(actor)),
            Err(error @ (TalosError::Lost { .. } | TalosError::Late { .. })) => {
                if has_rebooted(node, client, boot_id, wait, context).await? {
                    return Ok(None);
                }
                error.reason()
            }
            Err(error) if error.may_pass() => error.reason(),
            Err(error) => return Err(rejected(node, error)),
        };
        wait.not_yet(reason).await.map_err(|error| not_running(node, error.into()))?;
    }
}

/// Whether the node reboots after a request whose answer was lost. A second request would fail, or would reboot the node twice.
async fn has_rebooted(
    node: &TalosNode,
    client: &Client,
    boot_id: &str,
    wait: &mut Wait<'_>,
    context: &StepContext,
) -> Result<bool, StepError> {
    let until = context.run.clock.deadline(LOST_REBOOT);
    loop {
        match context.wait(client.boot_id()).await? {
            Ok(id) if id != boot_id => return Ok(true),
            Ok(_) if until.has_passed() => return Ok(false),
            Ok(_) | Err(_) => {}
        }
        let reason = "waiting for the node to reboot";
        wait.not_yet(reason).await.map_err(|error| not_running(node, error.into()))?;
    }
}

/// Waits until the node runs and is ready.
async fn await_ready(client: &Client, wait: &mut Wait<'_>) -> Result<(), FollowError> {
    loop {
        let reason = match machine_ready(client).await {
            Ok(Look::Done(())) => return Ok(()),
            Ok(Look::NotYet(reason)) => reason,
            Err(error) if error.may_pass() => error.reason(),
            Err(error) => return Err(error.into()),
        };
        wait.not_yet(reason).await?;
    }
}

fn rejected(node: &TalosNode, error: TalosError) -> StepError {
    let text = format!("{} rejected the reboot", node.name);
    StepError::failed(StepCode::TalosRejected, text).caused_by(error)
}

/// The error for a node that does not run after its reboot.
fn not_running(node: &TalosNode, error: FollowError) -> StepError {
    let name = &node.name;
    match error {
        FollowError::Look(LookError::Wait(WaitError::Cancelled)) => StepError::cancelled(),
        FollowError::Look(LookError::Wait(WaitError::TimedOut { reason, .. })) => {
            let text = format!("{name} does not come back from its reboot in time: {reason}");
            StepError::failed(StepCode::Timeout, text).hint(hint(&reason))
        }
        error => StepError::failed(StepCode::TalosRejected, format!("{name} did not reboot"))
            .caused_by(error),
    }
}
