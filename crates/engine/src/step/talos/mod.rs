//! Steps that concern Talos and Kubernetes: from a machine that boots to a cluster that is well.
//!
//! Nearly all of them wait for something that goes on without us. Each look says why the wait goes
//! on; only what cannot pass by itself ends it before its time.

mod addon;
mod apply_config;
mod bootstrap;
mod client_files;
mod etcd;
mod first_answer;
mod health;
mod member;
mod settled;
mod ubuntu;
mod vip;

use std::net::IpAddr;
use std::time::Duration;

use talmox_talos_api::Look;

use super::{StepContext, StepError};
use crate::access::AccessError;
use crate::plan::TalosNode;

pub(super) use addon::apply_addon;
pub(super) use apply_config::apply_config;
pub(super) use bootstrap::bootstrap_etcd;
pub(super) use client_files::write_client_files;
pub(super) use health::await_health;
pub(super) use member::await_member;
pub(super) use ubuntu::await_ubuntu;
pub(super) use vip::await_vip;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// Where a node is.
async fn locate(node: &TalosNode, context: &StepContext) -> Look<IpAddr> {
    crate::locate::locate(node.contact, &node.own.vm, &context.run.pve).await
}

impl From<AccessError> for StepError {
    fn from(error: AccessError) -> Self {
        Self::failed("use the secrets of the cluster").caused_by(error)
    }
}

/// One wait of a step: as long as the step may take, until somebody wants to stop.
struct StepWait<'a> {
    context: &'a StepContext,
    /// What does not come about: `talos-cp-01 does not join`.
    what: String,
    told: String,
}

impl<'a> StepWait<'a> {
    fn new(context: &'a StepContext, what: impl Into<String>) -> Self {
        Self { context, what: what.into(), told: String::new() }
    }

    /// Waits a little before the next look, and says why.
    async fn not_yet(&mut self, reason: impl Into<String>) -> Result<(), StepError> {
        let reason = reason.into();
        if self.context.deadline.has_passed() {
            let text = format!("{} in time: {reason}", self.what);
            return Err(
                StepError::failed(text).hint("running the same command again goes on from here")
            );
        }
        if reason != self.told {
            self.context.waits(&*reason);
            self.told = reason;
        }
        self.context.pause(LOOK).await
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
