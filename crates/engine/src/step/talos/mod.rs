//! Steps that concern Talos and Kubernetes: from a machine that boots to a cluster that is well.
//!
//! Nearly all of them wait for something that goes on without us. Each look says why the wait goes
//! on; only what cannot pass by itself ends it before its time.

mod apply_addon;
mod apply_config;
mod await_health;
mod await_member;
mod await_ubuntu;
mod await_vip;
mod bootstrap_etcd;
mod census;
mod etcd;
mod first_answer;
mod ground;
mod machine;
mod settled;
mod witness;
mod write_client_files;

use std::net::IpAddr;

use talmox_plan::plan::{OwnVm, StepId, TalosNode};
use talmox_talos_api::Look;

use super::{StepCode, StepContext, StepError};
use crate::access::AccessError;
use crate::patience::LOOK;
use crate::settled::Reason;
use ground::Ground;

/// Where a node is.
async fn locate(node: &TalosNode, context: &StepContext) -> Look<IpAddr> {
    crate::locate::locate(node.contact, &node.own.vm, &context.run.pve).await
}

impl From<AccessError> for StepError {
    fn from(error: AccessError) -> Self {
        Self::failed(StepCode::SecretsUnusable, "use the secrets of the cluster").caused_by(error)
    }
}

/// One wait of a step: as long as the step may take, until somebody wants to stop.
struct StepWait<'a> {
    context: &'a StepContext,
    /// What does not come about: `talos-cp-01 does not join`.
    what: String,
    needs: &'a [StepId],
    ground: Ground<'a>,
    told: String,
}

impl<'a> StepWait<'a> {
    fn new(context: &'a StepContext, what: impl Into<String>) -> Self {
        let ground = Ground::of(vec![], context);
        Self { context, what: what.into(), needs: &[], ground, told: String::new() }
    }

    /// The machines that it waits for.
    fn about(self, machines: impl IntoIterator<Item = &'a OwnVm>) -> Self {
        Self { ground: Ground::of(machines.into_iter().collect(), self.context), ..self }
    }

    /// The steps without which it waits in vain.
    fn needing(self, needs: &'a [StepId]) -> Self {
        Self { needs, ..self }
    }

    /// Waits a little before the next look, and says why.
    async fn not_yet(&mut self, reason: impl Into<Reason>) -> Result<(), StepError> {
        self.context.still_needs(self.needs)?;
        let Reason { text, advice } = reason.into();
        let reason = self.ground.explain(&text, false, self.context).await;
        if self.context.deadline.has_passed() {
            let text = format!("{} in time: {reason}", self.what);
            return Err(StepError::failed(StepCode::Timeout, text)
                .hint(advice.unwrap_or_else(|| hint(&reason))));
        }
        if reason != self.told {
            self.context.waits(&*reason);
            self.told = reason;
        }
        self.context.pause(LOOK).await
    }
}

/// What to do about nodes that are not ready because there is no network for pods.
const NO_NETWORK: &str = "the pods have no network (CNI): add one to `addons:` or bring it by hand, or let Talos bring its own; \
                          the same command goes on then";

/// Whether the container runtime of a node says that, in the words of Kubernetes.
fn has_no_network(reason: &str) -> bool {
    reason.contains("cni plugin not initialized") || reason.contains("NetworkPluginNotReady")
}

/// What can be done about a wait that was in vain, by what Talos says: it has no codes for its reasons, only words.
fn hint(reason: &str) -> &'static str {
    // Without the time Talos starts neither etcd nor anything that needs a certificate.
    if has_no_network(reason) {
        NO_NETWORK
    } else if reason.contains("time is not in sync") {
        "the node has not got the time: see that `network.gateway` and `network.nameservers` are \
         right and that a time server answers it (UDP 123); `network.time_servers` names others. \
         The same command goes on then"
    } else {
        "running the same command again goes on from here"
    }
}

/// What cannot be had yet is the reason to look again.
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
