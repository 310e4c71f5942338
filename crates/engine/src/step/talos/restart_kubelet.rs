//! Restarts the kubelet of a node whose Node object was deleted, so that the node registers in Kubernetes again.

use talmox_plan::plan::RestartKubelet;

use super::reboot_node::{own_node, reboot_safely};
use super::{Awaited, ExplainedWait};
use crate::step::{Done, RunStep, StepContext, StepError};
use crate::timeouts::REGISTRATION;

const KUBELET: &str = "kubelet";

impl RunStep for RestartKubelet {
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        let node = &self.node;
        let kube = context.cluster()?.kube()?;
        let name = &node.name;
        let awaited = Awaited {
            failure: format!("{name} does not register in Kubernetes"),
            what: format!("{name} to register in Kubernetes"),
        };
        let mut wait = ExplainedWait::new(context, awaited).about([&node.own]);
        let grace = context.run.clock.deadline(REGISTRATION);
        let mut done = Done::Already;
        loop {
            let reason = match context.wait(kube.node_cordon(&node.name)).await? {
                Ok(Some(found)) if !self.awaits_ready || found.is_ready => return Ok(done),
                Ok(Some(found)) => found.reason,
                Ok(None) if done == Done::Already && grace.has_passed() => {
                    let Some(reason) = Box::pin(restart(self, context)).await? else {
                        done = Done::Acted;
                        continue;
                    };
                    reason
                }
                Ok(None) => "waiting for the kubelet to register the node".to_owned(),
                Err(error) => error.progress(),
            };
            wait.not_yet(reason).await?;
        }
    }
}

/// Restarts the kubelet, or reboots the node if Talos rejects the restart. Returns the reason if the restart must be requested again.
async fn restart(
    step: &RestartKubelet,
    context: &StepContext,
) -> Result<Option<String>, StepError> {
    let node = &step.node;
    let client = own_node(node, context).await?;
    match context.act(async { Ok(client.restart_service(KUBELET).await) }).await? {
        Ok(()) => Ok(None),
        // A second restart does no harm, so a request whose answer was lost is sent again.
        Err(error) if error.may_pass() => Ok(Some(error.reason())),
        Err(error) => {
            let (name, reason) = (&node.name, error.reason());
            context.note(format!(
                "{name} rejected the restart of its kubelet, and is rebooted: {reason}"
            ));
            reboot_safely(node, &client, &step.control_planes, context).await?;
            Ok(None)
        }
    }
}
