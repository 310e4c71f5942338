//! Waits until the shared address of the Kubernetes API answers.

use std::time::Duration;

use talmox_plan::plan::{AwaitVip, VipBringer};
use talmox_talos_api::Address;

use super::StepWait;
use crate::patience::NETWORK;
use crate::settled::Reason;
use crate::step::{Done, RunStep, StepContext, StepError};

/// What to do about an add-on that does not bring it.
const NOT_HELD: &str = "see that the add-on is told this very address (kube-vip takes it as `address`), and that it can be \
                        reached from here; the same command goes on then";

impl RunStep for AwaitVip {
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        await_vip(self, context).await
    }
}

/// Whoever answers there must be this cluster: its authority vouches for it.
async fn await_vip(step: &AwaitVip, context: &StepContext) -> Result<Done, StepError> {
    let address = Address { host: step.address.to_string(), port: step.port };
    let kube = context.cluster()?.kube_at(std::slice::from_ref(&address))?;
    let what = match &step.by {
        VipBringer::Addon(name) => {
            format!("the add-on {name} does not bring the Kubernetes API to {address}")
        }
        _ => format!("{address} does not answer as the Kubernetes API of this cluster"),
    };
    let (grace, advice) = match &step.by {
        VipBringer::Talos => (None, None),
        VipBringer::Addon(_) => (None, Some(NOT_HELD)),
        VipBringer::Perhaps => (Some(NETWORK), None),
        VipBringer::Nobody => (Some(Duration::ZERO), None),
    };
    let grace = grace.map(|grace| context.run.clock.deadline(grace));
    let mut wait = StepWait::new(context, what);
    loop {
        let reason = match context.wait(kube.version()).await? {
            Ok(_) => return Ok(Done::Already),
            // Talos takes the address with etcd, before an API server answers behind it.
            Err(error) if step.by == VipBringer::Talos => error.progress(),
            Err(error) => error.reason(),
        };
        if grace.is_some_and(|grace| grace.has_passed()) {
            context.note(format!(
                "nobody brings {} yet, which is left to kube-vip: {reason}. \
                 Bring it with an add-on of your choice; the same command looks again",
                step.address
            ));
            return Ok(Done::Already);
        }
        wait.not_yet(Reason { text: reason, advice }).await?;
    }
}
