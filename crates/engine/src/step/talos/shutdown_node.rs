//! Shuts a node down.

use std::time::Duration;

use talmox_plan::plan::{ShutdownNode, TalosNode};
use talmox_pve::api::qemu::Vm;
use talmox_talos_api::{Client, Look, TalosError};

use super::machine::{self, IdentityMatch, other_machine};
use super::quorum::{await_spare, give_up_leadership};
use super::{ExplainedWait, answer_of, locate};
use crate::step::pve::{is_stopped, shut_down, vm_power};
use crate::step::{Done, RunStep, StepContext, StepError};
use crate::timeouts::{NODE_PAUSE, SHUTDOWN, SILENT_NODE};

impl RunStep for ShutdownNode {
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        let (vm, status) = vm_power(&self.own, context).await?;
        if !status.running {
            return Ok(Done::Already);
        }
        if let Some(node) = &self.talos {
            await_spare(node, &self.control_planes, context).await?;
            if let Some(client) = answering(node, &vm, context).await? {
                give_up_leadership(&client, node, &self.control_planes, context).await?;
                // The HA manager would start a VM again that stops without a request to Proxmox.
                if !status.ha_managed && by_talos(node, &client, &vm, context).await? {
                    return Ok(Done::Acted);
                }
            }
        }
        shut_down(&self.own, time_limit(context), context).await?;
        Ok(Done::Acted)
    }
}

/// Time for one way to shut the node down. It leaves time for the next way.
fn time_limit(context: &StepContext) -> Duration {
    SHUTDOWN.min(context.deadline.left() / 2)
}

/// A client of the node, after a check of its identity. None if the node does not answer for [`SILENT_NODE`], or if its VM
/// stops.
async fn answering(
    node: &TalosNode,
    vm: &Vm,
    context: &StepContext,
) -> Result<Option<Client>, StepError> {
    let silence = context.run.clock.deadline(SILENT_NODE);
    let mut wait = ExplainedWait::new(context, answer_of(&node.name));
    loop {
        let reason = match context.wait(locate(node, context)).await? {
            Look::Done(address) => {
                let client = context.cluster()?.client(address)?;
                match context.wait(machine::ask(&client, node)).await? {
                    IdentityMatch::Same => return Ok(Some(client)),
                    IdentityMatch::Other(why) => return Err(other_machine(node, address, &why)),
                    IdentityMatch::NotYet(reason) => reason,
                }
            }
            Look::NotYet(reason) => reason,
        };
        if silence.has_passed() {
            context.note(format!("{} does not answer: Proxmox shuts its VM down", node.name));
            return Ok(None);
        }
        if is_stopped(vm, context).await? {
            return Ok(None);
        }
        wait.not_yet(reason).await?;
    }
}

/// Shuts the node down through Talos. Returns false if the VM does not stop.
async fn by_talos(
    node: &TalosNode,
    client: &Client,
    vm: &Vm,
    context: &StepContext,
) -> Result<bool, StepError> {
    // Without force, Talos drains the node for up to five minutes. A step before this one has drained it.
    let sent = context.act(async { Ok(client.shutdown(true).await) }).await?;
    if let Err(
        error @ (TalosError::No { .. }
        | TalosError::Unreadable { .. }
        | TalosError::Unreachable { .. }),
    ) = sent
    {
        context.note(format!(
            "{} did not accept the shutdown ({error}): Proxmox shuts its VM down",
            node.name
        ));
        return Ok(false);
    }
    // Any other error means that the node may be shutting down.
    context.waits_for("the node to shut down");
    let until = context.run.clock.deadline(time_limit(context));
    while !is_stopped(vm, context).await? {
        if until.has_passed() {
            context.note(format!("{} did not shut down in time: Proxmox does it", node.name));
            return Ok(false);
        }
        context.pause(NODE_PAUSE).await?;
    }
    Ok(true)
}
