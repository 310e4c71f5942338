//! Waits until the shared address of the Kubernetes API answers.

use std::time::Duration;

use talmox_plan::plan::{AwaitVip, VipBringer};
use talmox_talos_api::Address;

use super::{Awaited, ExplainedWait};
use crate::node_network::WaitReason;
use crate::step::{Done, RunStep, StepContext, StepError};
use crate::timeouts::POD_NETWORK;

/// Hint for an add-on that does not provide the address.
const NOT_HELD: &str = "check that the add-on is configured with this address (`address` of kube-vip), and that this machine can reach \
                        it; then run the same command to resume";

impl RunStep for AwaitVip {
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        await_vip(self, context).await
    }
}

/// Waits until the address answers with a certificate of this cluster.
async fn await_vip(step: &AwaitVip, context: &StepContext) -> Result<Done, StepError> {
    let address = Address { host: step.address.to_string(), port: step.port };
    let kube = context.cluster()?.kube_at(std::slice::from_ref(&address))?;
    let awaited = match &step.by {
        VipBringer::Addon(name) => Awaited {
            failure: format!("the add-on {name} does not provide the Kubernetes API at {address}"),
            what: format!("the add-on {name} to provide the Kubernetes API at {address}"),
        },
        _ => Awaited {
            failure: format!("{address} does not answer as the Kubernetes API of this cluster"),
            what: format!("the Kubernetes API to answer at {address}"),
        },
    };
    let (grace, advice) = match &step.by {
        VipBringer::Talos => (None, None),
        VipBringer::Addon(_) => (None, Some(NOT_HELD)),
        VipBringer::Perhaps => (Some(POD_NETWORK), None),
        VipBringer::Nobody => (Some(Duration::ZERO), None),
    };
    let grace = grace.map(|grace| context.run.clock.deadline(grace));
    let mut wait = ExplainedWait::new(context, awaited);
    loop {
        let reason = match context.wait(kube.version()).await? {
            Ok(_) => return Ok(Done::Already),
            // Talos assigns the address when etcd runs, before an API server answers at it.
            Err(error) if step.by == VipBringer::Talos => error.progress(),
            Err(error) => error.reason(),
        };
        if grace.is_some_and(|grace| grace.has_passed()) {
            context.note(format!(
                "no add-on provides {} yet, which is left to kube-vip: {reason}. \
                 Install an add-on that provides it, then run the same command to check again",
                step.address
            ));
            return Ok(Done::Already);
        }
        wait.not_yet(WaitReason { text: reason, advice }).await?;
    }
}
