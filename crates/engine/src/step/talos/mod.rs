//! Steps that concern Talos and Kubernetes: from a machine that boots to a healthy cluster.
//!
//! Nearly all of these steps wait for a condition. Each check of the condition returns the reason of the wait. Only an error
//! that needs intervention ends a wait before its deadline.

mod api_server;
mod apply_addon;
mod apply_config;
mod await_health;
mod await_member;
mod await_ubuntu;
mod await_vip;
mod bootstrap_etcd;
mod change_config;
mod defrag_etcd;
mod delete_node;
mod disarm_alarms;
mod drain_node;
mod etcd;
mod etcd_member;
mod first_answer;
mod machine;
mod member_state;
mod possible_members;
mod preferred_route;
mod quorum;
mod reboot_node;
mod remove_member;
mod reset_node;
mod restart_kubelet;
mod settled;
mod shutdown_node;
mod trial_condition;
mod uncordon_node;
mod vm_check;
mod witness;
mod write_client_files;

use std::net::IpAddr;

use talmox_clock::{Wait, WaitError};
use talmox_plan::plan::{OwnVm, StepId, TalosNode};
use talmox_talos_api::{Look, TalosError};

use super::{StepCode, StepContext, StepError};
use crate::access::AccessError;
use crate::node_network::WaitReason;
use vm_check::VmCheck;

/// The address of a node.
async fn locate(node: &TalosNode, context: &StepContext) -> Look<IpAddr> {
    let vm = context.vm_cache.last_seen(&node.own.vm);
    crate::locate::locate(node.contact, &vm, &context.run.pve).await
}

impl From<AccessError> for StepError {
    fn from(error: AccessError) -> Self {
        Self::failed(StepCode::SecretsUnusable, "the secrets of the cluster cannot be used")
            .caused_by(error)
    }
}

/// Why a node does not answer, for a wait.
fn unanswered(error: &TalosError) -> String {
    match error {
        TalosError::Unreachable { .. } => {
            format!("waiting for the Talos API to answer ({})", error.reason())
        }
        _ => error.reason(),
    }
}

/// A condition that a step waits for.
struct Awaited {
    /// The condition as the error states it: `talos-cp-01 does not join`.
    failure: String,
    /// The condition as the wait states it: `talos-cp-01 to join`.
    what: String,
}

/// The condition that a node answers.
fn answer_of(node: &str) -> Awaited {
    Awaited { failure: format!("{node} does not answer"), what: format!("{node} to answer") }
}

/// A wait that reports its condition, together with problems of the VMs. It ends at the deadline of the step.
struct ExplainedWait<'a> {
    context: &'a StepContext,
    /// The condition as the error states it.
    failure: String,
    needs: &'a [StepId],
    vm_check: VmCheck<'a>,
    wait: Wait<'a>,
}

impl<'a> ExplainedWait<'a> {
    fn new(context: &'a StepContext, Awaited { failure, what }: Awaited) -> Self {
        let wait = context.cancellable_wait(context.deadline.clone(), what);
        Self { context, failure, needs: &[], vm_check: VmCheck::of(vec![], context), wait }
    }

    /// Sets the machines that the step waits for.
    fn about(self, machines: impl IntoIterator<Item = &'a OwnVm>) -> Self {
        Self { vm_check: VmCheck::of(machines.into_iter().collect(), self.context), ..self }
    }

    /// Sets the steps whose effects the wait depends on. If one of them fails, the wait ends.
    fn needing(self, needs: &'a [StepId]) -> Self {
        Self { needs, ..self }
    }

    /// Reports the condition and why it is not met, and pauses until the next check.
    async fn not_yet(&mut self, reason: impl Into<WaitReason>) -> Result<(), StepError> {
        self.context.still_needs(self.needs)?;
        let WaitReason { text, advice } = reason.into();
        let answer = self.vm_check.explain(&text, false, self.context).await;
        // Without an answer, the reason only repeats the condition.
        let has_answer = !answer.is_empty();
        self.wait.not_yet(answer).await.map_err(|error| match error {
            WaitError::Cancelled => StepError::cancelled(),
            WaitError::TimedOut { reason, .. } => {
                let why = if has_answer { format!(": {reason}") } else { String::new() };
                let text = format!("{} in time{why}", self.failure);
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
    // Without the correct time, Talos starts neither etcd nor any service with a certificate.
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

/// The value of a [`Look`] that is done. If it is not done, waits and continues the loop of the caller.
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
