//! Steps that concern Talos and Kubernetes: from a machine that boots to a healthy cluster.
//!
//! Nearly all of them wait for a condition. Each check of the condition returns the reason of the wait. Only an error that needs
//! intervention ends a wait before its deadline.

mod apply_addon;
mod apply_config;
mod await_health;
mod await_member;
mod await_ubuntu;
mod await_vip;
mod bootstrap_etcd;
mod etcd;
mod first_answer;
mod machine;
mod possible_members;
mod settled;
mod vm_check;
mod witness;
mod write_client_files;

use std::net::IpAddr;

use talmox_clock::{Wait, WaitError};
use talmox_plan::plan::{OwnVm, StepId, TalosNode};
use talmox_talos_api::Look;

use super::{StepCode, StepContext, StepError};
use crate::access::AccessError;
use crate::node_network::WaitReason;
use vm_check::VmCheck;

/// The address of a node.
async fn locate(node: &TalosNode, context: &StepContext) -> Look<IpAddr> {
    crate::locate::locate(node.contact, &node.own.vm, &context.run.pve).await
}

impl From<AccessError> for StepError {
    fn from(error: AccessError) -> Self {
        Self::failed(StepCode::SecretsUnusable, "the secrets of the cluster cannot be used")
            .caused_by(error)
    }
}

/// Wait of a step that explains what it waits for, until the deadline of the step.
struct ExplainedWait<'a> {
    context: &'a StepContext,
    /// The condition that is not met, for the error: `talos-cp-01 does not join`.
    what: String,
    needs: &'a [StepId],
    vm_check: VmCheck<'a>,
    wait: Wait<'a>,
}

impl<'a> ExplainedWait<'a> {
    fn new(context: &'a StepContext, what: impl Into<String>) -> Self {
        let wait = context.cancellable_wait(context.deadline.clone());
        Self {
            context,
            what: what.into(),
            needs: &[],
            vm_check: VmCheck::of(vec![], context),
            wait,
        }
    }

    /// The machines that it waits for.
    fn about(self, machines: impl IntoIterator<Item = &'a OwnVm>) -> Self {
        Self { vm_check: VmCheck::of(machines.into_iter().collect(), self.context), ..self }
    }

    /// The steps that it depends on: once one of them failed, the wait ends.
    fn needing(self, needs: &'a [StepId]) -> Self {
        Self { needs, ..self }
    }

    /// Reports why the condition is not met, and pauses until the next check.
    async fn not_yet(&mut self, reason: impl Into<WaitReason>) -> Result<(), StepError> {
        self.context.still_needs(self.needs)?;
        let WaitReason { text, advice } = reason.into();
        let reason = self.vm_check.explain(&text, false, self.context).await;
        self.wait.not_yet(reason).await.map_err(|error| match error {
            WaitError::Cancelled => StepError::cancelled(),
            WaitError::TimedOut { reason, .. } => {
                let text = format!("{} in time: {reason}", self.what);
                StepError::failed(StepCode::Timeout, text)
                    .hint(advice.unwrap_or_else(|| hint(&reason)))
            }
        })
    }
}

/// Hint for nodes that are not ready because there is no pod network.
const NO_NETWORK: &str = "the cluster has no pod network (CNI): add one to `addons:`, install one, or let Talos install its own; \
                          then run the same command to resume";

/// Whether the reason is a missing pod network, by the texts of Kubernetes.
fn has_no_network(reason: &str) -> bool {
    reason.contains("cni plugin not initialized") || reason.contains("NetworkPluginNotReady")
}

/// Hint for a wait that timed out. It is chosen by the text of Talos, because Talos has no codes for its reasons.
fn hint(reason: &str) -> &'static str {
    // Without the time, Talos starts neither etcd nor any service with a certificate.
    if has_no_network(reason) {
        NO_NETWORK
    } else if reason.contains("time is not in sync") {
        "the node has no time: check that `network.gateway` and `network.nameservers` are right and that a time \
         server answers the node (UDP 123); set `network.time_servers` to use others. Then run the same command to \
         resume"
    } else {
        "run the same command to resume"
    }
}

/// The result of a look, or another round of the wait if it is not done.
macro_rules! or_wait {
    ($wait:expr, $look:expr) => {
        match $look {
            talmox_talos_api::Look::Done(found) => found,
            talmox_talos_api::Look::NotYet(reason) => {
                $wait.not_yet(reason).await?;
                continue;
            }
        }
    };
}
use or_wait;
