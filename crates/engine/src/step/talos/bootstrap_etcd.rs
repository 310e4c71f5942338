//! Bootstraps etcd on one control plane, once.
//!
//! A second bootstrap would create a second cluster. To prevent that, all witnesses are read right before the bootstrap
//! (`witness.rs`). A witness that may have data and cannot be read ends the step.

use talmox_clock::Deadline;
use talmox_plan::plan::BootstrapEtcd;
use talmox_talos_api::{BootstrapRequest, Code, Look, TalosError, wait};

use super::etcd::EtcdData;
use super::witness::{self, Objection};
use super::{Awaited, ExplainedWait, locate, machine, or_wait};
use crate::step::{Done, RunStep, StepCode, StepContext, StepError};
use crate::timeouts::ETCD_WITNESS;

impl RunStep for BootstrapEtcd {
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        bootstrap_etcd(self, context).await
    }
}

async fn bootstrap_etcd(step: &BootstrapEtcd, context: &StepContext) -> Result<Done, StepError> {
    let witness_deadline = context.run.clock.deadline(ETCD_WITNESS.min(context.deadline.left()));
    let mut done = Done::Already;
    // The boot in which the node accepted the bootstrap request. A second request would stop the etcd that the first request
    // is starting. So the request is repeated only after a reboot, or after that etcd failed.
    let mut accepted_in: Option<String> = None;
    let name = &step.node.name;
    let awaited = Awaited {
        failure: format!("etcd does not come up on {name}"),
        what: format!("etcd to start on {name}"),
    };
    let mut wait = ExplainedWait::new(context, awaited).about([&step.node.own]);
    loop {
        let address = or_wait!(wait, locate(&step.node, context).await);
        let client = context.cluster()?.client(address)?;
        or_wait!(wait, context.wait(machine::known_member(&client, &step.node, address)).await??);
        let progress = match context.wait(EtcdData::read(&client)).await? {
            Ok(EtcdData::Member) => return Ok(done),
            Ok(EtcdData::Starting(reason)) => {
                wait.not_yet(reason).await?;
                continue;
            }
            Ok(EtcdData::AtRest) => {
                wait.not_yet("etcd has data and does not run yet").await?;
                continue;
            }
            Ok(EtcdData::Nothing(progress)) => progress,
            Err(error) => {
                wait.not_yet(error.reason()).await?;
                continue;
            }
        };
        let boot = match context.wait(client.boot_id()).await? {
            Ok(boot) => boot,
            Err(error) => {
                wait.not_yet(error.reason()).await?;
                continue;
            }
        };
        let is_starting = match context.wait(BootstrapRequest::read(&client)).await? {
            // An earlier run that was killed may have sent the request.
            Ok(BootstrapRequest::Accepted) => true,
            Ok(BootstrapRequest::None) => accepted_in.as_ref() == Some(&boot),
            Ok(BootstrapRequest::Failed) => false,
            Err(error) => {
                wait.not_yet(error.reason()).await?;
                continue;
            }
        };
        if is_starting {
            wait.not_yet(progress).await?;
            continue;
        }
        // Talos rejects the bootstrap until the time is in sync. The witnesses are read only after that, because reading them
        // takes seconds and sends requests to Proxmox. A node that does not report its time rejects the bootstrap itself.
        if let Ok(Look::NotYet(reason)) = context.wait(wait::time_sync(&client)).await? {
            wait.not_yet(reason).await?;
            continue;
        }
        if let Some(reason) = objection(step, context, witness_deadline).await? {
            wait.not_yet(reason).await?;
            continue;
        }
        let reason = match context.act_alone(async { Ok(client.bootstrap().await) }).await? {
            Ok(()) => {
                done = Done::Acted;
                accepted_in = Some(boot);
                String::new()
            }
            Err(TalosError::No { code: Code::AlreadyExists, .. }) => String::new(),
            Err(error) if error.may_pass() => error.reason(),
            Err(error) => {
                return Err(StepError::failed(
                    StepCode::TalosRejected,
                    format!("bootstrap etcd on {}", step.node.name),
                )
                .caused_by(error));
            }
        };
        wait.not_yet(reason).await?;
    }
}

/// Reason why etcd cannot be bootstrapped yet. None if it can be bootstrapped.
async fn objection(
    step: &BootstrapEtcd,
    context: &StepContext,
    deadline: Deadline,
) -> Result<Option<String>, StepError> {
    let Some(Objection { reason, hint }) = witness::ask_all(step, context).await? else {
        return Ok(None);
    };
    if deadline.has_passed() {
        return Err(StepError::failed(
            StepCode::BootstrapUnsafe,
            format!("etcd is not bootstrapped: {reason}"),
        )
        .hint(hint));
    }
    Ok(Some(reason))
}
