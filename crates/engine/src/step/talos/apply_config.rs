//! Gives a node its config, and makes sure that it became what it should be.

use std::net::IpAddr;

use talmox_plan::plan::{ApplyConfig, TalosNode};
use talmox_talos_api::client::{Apply, ApplyMode};
use talmox_talos_api::probe::{HANGS, Maintenance};
use talmox_talos_api::{Expected, TalosError, Verdict};
use talmox_talos_config::contract::Contract;

use super::StepWait;
use super::first_answer::{Found, first_answer};
use super::settled::await_settled;
use crate::patience::LOOK;
use crate::settled::Reason;
use crate::step::{Done, RunStep, StepCode, StepContext, StepError, secret_text};

/// What a node does right after it has taken its config.
const RESTARTING: &str = "waiting for the node to restart its API with its config";

/// The first Talos that tells its version without a config.
const TELLS_VERSION: Contract = Contract::new(1, 13);

impl RunStep for ApplyConfig {
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        apply_config(self, context).await
    }
}

async fn apply_config(step: &ApplyConfig, context: &StepContext) -> Result<Done, StepError> {
    let mut done = Done::Already;
    let mut resets = step.resets;
    let address = loop {
        let (address, found) = first_answer(step, resets, context).await?;
        // Who answered once came up, and needs no reset any more.
        resets = 0;
        let Found::Waiting { node, expected } = found else { break address };
        refuse_other_release(step, &node, context).await?;
        tell(context);
        let unsure = apply(step, &node, context).await?;
        // A node that just booted changes its key a few times.
        if !matches!(unsure, Some(TalosError::Unreachable { .. })) {
            done = Done::Acted;
            await_ours(step, &expected, address, context).await?;
            break address;
        }
        // Who it is may have changed while nobody listened, so it is asked again.
        context.pause(LOOK).await?;
    };
    let what = format!("{} does not become what its config says", step.node.name);
    let mut wait = StepWait::new(context, what).about([&step.node.own]).needing(&step.needs);
    await_settled(&step.shape, address, &mut wait, context).await?;
    note_version(step, address, context).await?;
    Ok(done)
}

/// A template may hold any Talos, and one of another release takes the config and makes something else of it. Who cannot
/// tell its version is given the config: that nobody knows better is no reason to stop.
async fn refuse_other_release(
    step: &ApplyConfig,
    node: &Maintenance,
    context: &StepContext,
) -> Result<(), StepError> {
    let Some(template) = &step.template else { return Ok(()) };
    let Ok(wanted) = step.talos_version.parse::<Contract>() else { return Ok(()) };
    let runs = match context.wait(node.client.version()).await? {
        Ok(version) if version.tag.parse().is_ok_and(|found: Contract| found != wanted) => {
            version.tag
        }
        Err(error) if error.is_unimplemented() && wanted >= TELLS_VERSION => {
            format!("older than {TELLS_VERSION}")
        }
        _ => return Ok(()),
    };
    let TalosNode { name, .. } = &step.node;
    let wanted = &step.talos_version;
    let text = format!(
        "{name} runs Talos {runs}, and its config is made for {wanted}: nothing was sent to it"
    );
    Err(StepError::failed(StepCode::WrongTalosVersion, text).hint(format!(
        "the template {template} holds another Talos: set `talos_version:` to the version that it holds, then run the same \
         command; or name a template that has {wanted}, which new VMs are cloned from"
    )))
}

/// Says that the config is sent: where no answer comes, that is what is waited for.
fn tell(context: &StepContext) {
    let reason = "its config is being applied";
    if context.last_reason() != reason {
        context.waits(reason);
    }
}

/// Gives the node its config. Inside, why it may not have taken it: only where it could not be reached is that certain.
async fn apply(
    step: &ApplyConfig,
    node: &Maintenance,
    context: &StepContext,
) -> Result<Option<TalosError>, StepError> {
    let config = secret_text(&step.config)?;
    let apply = Apply { config, mode: ApplyMode::Auto, dry_run: false };
    let sent = context.act(async { Ok(node.client.apply(&apply).await) }).await?;
    match sent {
        Ok(_) => Ok(None),
        Err(error @ (TalosError::No { .. } | TalosError::Unreadable { .. })) => {
            Err(StepError::failed(
                StepCode::TalosRejected,
                format!("{} does not take its config", step.node.name),
            )
            .caused_by(error)
            .hint("`talmox render` shows the config without its secrets"))
        }
        // It has a config already, or is about to; or it cannot be heard.
        Err(error) => Ok(Some(error)),
    }
}

/// Waits until the node answers as one of the cluster. Whoever is still in maintenance mode after
/// its answer got lost is given the config once more.
async fn await_ours(
    step: &ApplyConfig,
    expected: &Expected,
    address: IpAddr,
    context: &StepContext,
) -> Result<(), StepError> {
    let access = context.cluster()?;
    let what = format!("{} does not come back with its config", step.node.name);
    let mut wait = StepWait::new(context, what).about([&step.node.own]).needing(&step.needs);
    loop {
        let reason = match context.wait(access.probe(address)).await?? {
            Verdict::Ours => return Ok(()),
            Verdict::Maintenance(node) => {
                if let Some(why) = node.machine.mismatch(expected) {
                    Reason::from(format!("another machine answers: {why}"))
                } else {
                    without_config(apply(step, &node, context).await?.as_ref())
                }
            }
            // Talos closes its port, or breaks connections off, while it restarts its API.
            Verdict::Nothing(error) | Verdict::Mute(error) => {
                Reason::from(format!("{RESTARTING} ({error})"))
            }
            Verdict::Unclear(error) if error.may_pass() => Reason::from(RESTARTING),
            other => Reason::from(other.to_string()),
        };
        wait.not_yet(reason).await?;
    }
}

/// Why a node that was just sent its config is still without.
fn without_config(unsure: Option<&TalosError>) -> Reason {
    let text = "it is still without a config";
    let Some(error) = unsure else { return Reason::from(text) };
    let is_silent = matches!(error, TalosError::Late { .. } | TalosError::Lost { .. });
    Reason { text: format!("{text}: {error}"), advice: is_silent.then_some(HANGS) }
}

/// People should know if it runs another version than its config is made for.
async fn note_version(
    step: &ApplyConfig,
    address: IpAddr,
    context: &StepContext,
) -> Result<(), StepError> {
    let client = context.cluster()?.client(address)?;
    // Who cannot be asked now was well a moment ago.
    if let Ok(version) = context.wait(client.version()).await?
        && version.tag != step.talos_version
    {
        context.note(format!(
            "{} runs Talos {}, and its config is made for {}",
            step.node.name, version.tag, step.talos_version
        ));
    }
    Ok(())
}
