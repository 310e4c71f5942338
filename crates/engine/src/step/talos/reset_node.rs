//! Resets a node that is removed: its disks are wiped, and it powers off.

use std::time::Duration;

use talmox_plan::plan::{ResetNode, TalosNode};
use talmox_talos_api::client::{Reset, Wipe};
use talmox_talos_api::{Client, Look};

use super::machine::{self, IdentityMatch};
use super::{Awaited, ExplainedWait, locate};
use crate::step::pve::is_off;
use crate::step::{Done, RunStep, StepContext, StepError};

/// Timeout of an answer. A node that does not answer is not reset.
const ANSWER: Duration = Duration::from_secs(10);
/// Time in which a node powers off after a reset, at most half of the time that the step has left. After that, the next step
/// stops the VM.
const POWER_OFF: Duration = Duration::from_mins(5);

impl RunStep for ResetNode {
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        let node = &self.node;
        if is_off(&node.own, context).await? {
            return Ok(Done::Already);
        }
        let client = match own_machine(node, context).await? {
            Look::Done(client) => client,
            Look::NotYet(reason) => {
                not_reset(node, &reason, context);
                return Ok(Done::Already);
            }
        };
        let wipe = Wipe::All { user_disks: vec![] };
        let reset = Reset { graceful: false, reboot: false, wipe };
        let sent = context.act(async { Ok(client.reset(&reset).await) }).await?;
        // If the answer was lost, the node may be resetting.
        if let Err(error) = sent
            && error.is_untouched()
        {
            not_reset(node, &error.reason(), context);
            return Ok(Done::Already);
        }
        let end = context.run.clock.deadline(POWER_OFF.min(context.deadline.left() / 2));
        let name = &node.name;
        let awaited = Awaited {
            failure: format!("{name} does not power off"),
            what: format!("{name} to wipe its disks and power off"),
        };
        let mut wait = ExplainedWait::new(context, awaited);
        while !is_off(&node.own, context).await? {
            if end.has_passed() {
                context.note(format!("{} did not power off after its reset", node.name));
                break;
            }
            wait.not_yet("").await?;
        }
        Ok(Done::Acted)
    }
}

fn not_reset(node: &TalosNode, reason: &str, context: &StepContext) {
    let name = &node.name;
    context.note(format!("{name} is not reset ({reason}); its disks are destroyed with its VM"));
}

/// A client of the machine at the address of the node. `NotYet`, with the reason, if it is not the machine of the node.
async fn own_machine(node: &TalosNode, context: &StepContext) -> Result<Look<Client>, StepError> {
    let address = match context.wait(locate(node, context)).await? {
        Look::Done(address) => address,
        Look::NotYet(reason) => return Ok(Look::NotYet(reason)),
    };
    let client = context.cluster()?.client(address)?.within(ANSWER);
    Ok(match context.wait(machine::ask(&client, node)).await? {
        IdentityMatch::Same => Look::Done(client),
        IdentityMatch::NotYet(reason) => Look::NotYet(reason),
        IdentityMatch::Other(reason) => {
            Look::NotYet(format!("another machine answers at its address: {reason}"))
        }
    })
}
