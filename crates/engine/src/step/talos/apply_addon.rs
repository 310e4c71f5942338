//! Applies the manifests of an add-on and waits until its workloads run.

use talmox_clock::Wait;
use talmox_plan::manifest::{HookPhase, Manifest};
use talmox_plan::plan::ApplyAddon;

use super::{NO_NETWORK, has_no_network};
use crate::addon::{AddonError, manifests};
use crate::kube::{ApplyError, KubeError};
use crate::step::{Done, RunStep, StepCode, StepContext, StepError};
use crate::timeouts::NODE_PAUSE;

impl RunStep for ApplyAddon {
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        apply_addon(self, context).await
    }
}

async fn apply_addon(step: &ApplyAddon, context: &StepContext) -> Result<Done, StepError> {
    let doing = format!("add-on {}", step.name);
    let read = manifests(&step.name, &step.source, step.namespace.as_ref(), &context.run.web);
    let read = context.wait(read).await?;
    let manifests = read.map_err(|error| unreadable(&doing, error))?;
    let kube = context.cluster()?.kube()?;
    let what = format!("the add-on {}", step.name);
    let mut wait = Wait::new(context.run.clock, context.deadline.clone(), what)
        .pausing(NODE_PAUSE)
        .reporting(move |line| context.report_wait(line));
    let failed = |error: ApplyError| {
        let hint = match &error {
            ApplyError::Conflict { .. } => {
                "remove these fields from the manifest, or from the other field manager"
            }
            ApplyError::Missing(_) => {
                "create it with an add-on, or in the cluster; then run the same command to resume"
            }
            ApplyError::Rejected { .. } => {
                "correct the manifest, or the policy that rejects it; then run the same command to resume"
            }
            ApplyError::Wait(error) if has_no_network(error.reason()) => NO_NETWORK,
            _ => "run the same command to resume",
        };
        StepError::failed(StepCode::AddonFailed, &*doing).caused_by(error).hint(hint)
    };
    let unnoted = |error: KubeError| {
        let may_pass = error.may_pass();
        let kind = if may_pass { StepError::retry } else { StepError::failed };
        let plain = kind(StepCode::KubernetesFailed, &doing);
        plain.caused_by(error).hint("run the same command to resume")
    };
    // Applying the same manifests again changes nothing, so applying may be cancelled and repeated. The objects are recorded
    // first, so that the next run finds the objects of a killed run.
    let act = async {
        context.wait(kube.note(&step.name, &manifests)).await?.map_err(unnoted)?;
        context.wait(kube.apply(&manifests, &mut wait)).await?.map_err(failed)
    };
    context.act(act).await?;
    // The former hooks that come last do not exist yet.
    let (last, first): (Vec<Manifest>, Vec<Manifest>) =
        manifests.into_iter().partition(|one| one.hook_phase() == Some(HookPhase::After));
    if !step.skips_rollout {
        context.wait(kube.await_rollout(&first, &mut wait)).await?.map_err(failed)?;
    }
    if !last.is_empty() {
        let act = async {
            let hooks = kube.apply_hooks(&last, HookPhase::After, &mut wait);
            context.wait(hooks).await?.map_err(failed)
        };
        context.act(act).await?;
    }
    Ok(Done::Acted)
}

fn unreadable(doing: &str, error: AddonError) -> StepError {
    match error {
        AddonError::Fetch { url, source } => {
            StepError::web(&format!("{doing}: fetch {url}"), source)
        }
        error @ AddonError::Checksum { .. } => StepError::failed(StepCode::AddonFailed, doing)
            .caused_by(error)
            .hint("check what changed before you update the checksum"),
        error @ AddonError::NotInPlan { .. } => {
            StepError::failed(StepCode::PlanIncomplete, doing).caused_by(error)
        }
        error => StepError::failed(StepCode::AddonFailed, doing).caused_by(error),
    }
}
