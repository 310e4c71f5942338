//! Waits until the shared address of the Kubernetes API answers.

use talmox_talos_api::Address;

use super::StepWait;
use crate::plan::AwaitVip;
use crate::step::{Done, StepContext, StepError};

/// Whoever answers there must be this cluster: its authority vouches for it.
pub(in crate::step) async fn await_vip(
    step: &AwaitVip,
    context: &StepContext,
) -> Result<Done, StepError> {
    let address = Address { host: step.address.to_string(), port: step.port };
    let kube = context.cluster()?.kube_at(std::slice::from_ref(&address))?;
    let what = format!("{address} does not answer as the Kubernetes API of this cluster");
    let mut wait = StepWait::new(context, what);
    loop {
        match context.wait(kube.version()).await? {
            Ok(_) => return Ok(Done::Already),
            Err(error) => wait.not_yet(error.reason()).await?,
        }
    }
}
