//! Applies the manifests of an add-on and waits until they work.

use talmox_plan::plan::ApplyAddon;

use super::{NO_NETWORK, has_no_network};
use crate::addon::{AddonError, manifests};
use crate::kube::{ApplyError, KubeError};
use crate::patience::{LOOK, Patience};
use crate::step::{Done, RunStep, StepCode, StepContext, StepError};

impl RunStep for ApplyAddon {
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        apply_addon(self, context).await
    }
}

async fn apply_addon(step: &ApplyAddon, context: &StepContext) -> Result<Done, StepError> {
    let doing = format!("add-on {}", step.name);
    let read = context.wait(manifests(&step.name, &step.source, &context.run.web)).await?;
    let manifests = read.map_err(|error| unreadable(&doing, error))?;
    let kube = context.cluster()?.kube()?;
    let tell = |reason: &str| context.waits(reason);
    let clock = context.run.clock;
    let deadline = clock.deadline(context.deadline.left());
    let patience = Patience { clock, deadline, pause: LOOK, tell: &tell };
    let failed = |error: ApplyError| {
        let hint = match &error {
            ApplyError::Conflict { .. } => {
                "take these fields out of the manifest, or let go of them elsewhere"
            }
            ApplyError::Missing(_) => {
                "bring it with an add-on, or make it in the cluster; the same command goes on then"
            }
            ApplyError::Refused { .. } => {
                "correct the manifest, or what it says no to; the same command goes on then"
            }
            ApplyError::Late(late) if has_no_network(&late.reason) => NO_NETWORK,
            _ => "running the same command again goes on from here",
        };
        StepError::failed(StepCode::AddonFailed, &*doing).caused_by(error).hint(hint)
    };
    let unnoted = |error: KubeError| {
        let may_pass = error.may_pass();
        let kind = if may_pass { StepError::retry } else { StepError::failed };
        let plain = kind(StepCode::KubernetesFailed, &doing);
        plain.caused_by(error).hint("running the same command again goes on from here")
    };
    // Applying the same again changes nothing, so it may be broken off and begun anew. It is noted
    // down first: killed in between, what was applied is still found again.
    let act = async {
        context.wait(kube.note(&step.name, &manifests)).await?.map_err(unnoted)?;
        context.wait(kube.apply(&manifests, patience)).await?.map_err(failed)
    };
    context.act(act).await?;
    context.wait(kube.await_rollout(&manifests, patience)).await?.map_err(failed)?;
    Ok(Done::Acted)
}

fn unreadable(doing: &str, error: AddonError) -> StepError {
    match error {
        AddonError::Fetch { url, source } => {
            StepError::web(&format!("{doing}: fetch {url}"), source)
        }
        error @ AddonError::Checksum { .. } => StepError::failed(StepCode::AddonFailed, doing)
            .caused_by(error)
            .hint("find out what changed before you change the checksum"),
        error => StepError::failed(StepCode::AddonFailed, doing).caused_by(error),
    }
}
