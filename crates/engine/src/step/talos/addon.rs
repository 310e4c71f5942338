//! Applies the manifests of an add-on and waits until they work.

use aws_lc_rs::digest::{SHA256, digest};

use crate::kube::{ApplyError, Manifest, read_manifests};
use crate::patience::{LOOK, Patience};
use crate::plan::{AddonSource, ApplyAddon};
use crate::step::{Done, StepContext, StepError};

pub(in crate::step) async fn apply_addon(
    step: &ApplyAddon,
    context: &StepContext,
) -> Result<Done, StepError> {
    let manifests = read(step, context).await?;
    let kube = context.cluster()?.kube()?;
    let tell = |reason: &str| context.waits(reason);
    let (clock, deadline) = (context.run.clock, context.deadline);
    let patience = Patience { clock, deadline, pause: LOOK, tell: &tell };
    let failed = |error: ApplyError| {
        let hint = match &error {
            ApplyError::Conflict { .. } => {
                "take these fields out of the manifest, or let go of them elsewhere"
            }
            _ => "running the same command again goes on from here",
        };
        StepError::failed(format!("add-on {}", step.name)).caused_by(error).hint(hint)
    };
    // Applying the same again changes nothing, so it may be broken off and begun anew.
    let applied = context.act(context.wait(kube.apply(&manifests, patience))).await?;
    applied.map_err(failed)?;
    context.wait(kube.await_rollout(&manifests, patience)).await?.map_err(failed)?;
    Ok(Done::Acted)
}

async fn read(step: &ApplyAddon, context: &StepContext) -> Result<Vec<Manifest>, StepError> {
    let unreadable = |error| StepError::failed(format!("add-on {}", step.name)).caused_by(error);
    match &step.source {
        AddonSource::Texts(texts) => {
            let mut manifests = vec![];
            for text in texts {
                manifests.extend(read_manifests(&text.origin, &text.text).map_err(unreadable)?);
            }
            Ok(manifests)
        }
        AddonSource::Url { url, checksum } => {
            let doing = format!("fetch the manifests of the add-on {}", step.name);
            let fetched = context.wait(context.run.web.get(url)).await?;
            let bytes = fetched.map_err(|error| StepError::web(&doing, error))?;
            if let Some(wanted) = checksum {
                check(&bytes, wanted, &doing)?;
            }
            let text = String::from_utf8(bytes)
                .map_err(|_| StepError::failed(format!("{doing}: it is no text")))?;
            read_manifests(url, &text).map_err(unreadable)
        }
    }
}

fn check(bytes: &[u8], wanted: &str, doing: &str) -> Result<(), StepError> {
    let found: String =
        digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    if found.eq_ignore_ascii_case(wanted.trim_start_matches("sha256:")) {
        return Ok(());
    }
    Err(StepError::failed(format!("{doing}: its SHA-256 is {found}, not {wanted}"))
        .hint("find out what changed before you change the checksum"))
}
