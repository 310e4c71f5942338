//! Sends a node its config, and waits until the node has the network of its config.

use std::net::IpAddr;

use talmox_plan::plan::{ApplyConfig, TalosNode};
use talmox_talos_api::client::{Apply, ApplyMode};
use talmox_talos_api::probe::{HANGS, Maintenance};
use talmox_talos_api::{Expected, TalosError, Verdict};
use talmox_talos_config::contract::Contract;

use super::first_answer::{FirstAnswer, first_answer};
use super::settled::{await_settled, network_of};
use super::{Awaited, ExplainedWait};
use crate::node_network::WaitReason;
use crate::step::{Done, RunStep, StepCode, StepContext, StepError, secret_text};
use crate::timeouts::NODE_PAUSE;

/// Reason that is shown for the wait while a node restarts its API after it accepted its config.
const RESTARTING: &str = "waiting for the node to restart its API with its config";

/// First version of Talos that reports its version in maintenance mode.
const REPORTS_VERSION: Contract = Contract::new(1, 13);

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
        // A machine that answered needs no reset.
        resets = 0;
        let FirstAnswer::Maintenance { node, expected } = found else { break address };
        check_release(step, &node, context).await?;
        report_apply(context);
        let unsure = apply(step, &node, context).await?;
        // If the node is unreachable, the loop starts again, because a node that just booted changes its key several times.
        if !matches!(unsure, Some(TalosError::Unreachable { .. })) {
            done = Done::Acted;
            await_own_node(step, &expected, address, context).await?;
            break address;
        }
        // Another machine may have the address by now, so the identity of the machine is read again.
        context.pause(NODE_PAUSE).await?;
    };
    let awaited = network_of(&step.node.name);
    let mut wait =
        ExplainedWait::new(context, awaited).about([&step.node.own]).needing(&step.needs);
    await_settled(&step.shape, address, &mut wait, context).await?;
    note_version(step, address, context).await?;
    Ok(done)
}

/// Returns an error if a machine from a template runs another release of Talos, because that release would interpret the
/// config in another way. A machine that does not report its version gets the config.
async fn check_release(
    step: &ApplyConfig,
    node: &Maintenance,
    context: &StepContext,
) -> Result<(), StepError> {
    let Some(template) = &step.template else { return Ok(()) };
    let Ok(desired) = step.talos_version.parse::<Contract>() else { return Ok(()) };
    let runs = match context.wait(node.client.version()).await? {
        Ok(version) if version.tag.parse().is_ok_and(|found: Contract| found != desired) => {
            version.tag
        }
        Err(error) if error.is_unimplemented() && desired >= REPORTS_VERSION => {
            format!("older than {REPORTS_VERSION}")
        }
        _ => return Ok(()),
    };
    let TalosNode { name, .. } = &step.node;
    let desired = &step.talos_version;
    let text = format!(
        "{name} runs Talos {runs}, and its config is for {desired}: nothing was sent to it"
    );
    Err(StepError::failed(StepCode::WrongTalosVersion, text).hint(format!(
        "the template {template} has another version of Talos: set `talos_version:` to that version, then run the same \
         command; or use a template with {desired} for new VMs"
    )))
}

/// Reports that the step waits for the node to apply its config.
fn report_apply(context: &StepContext) {
    let what = "the node to apply its config";
    if context.last_reason().strip_prefix("waiting for ") != Some(what) {
        context.waits_for(what);
    }
}

/// Sends the config to the node. `Ok(Some(error))` means that the node may have accepted the config. Only if the error is
/// `Unreachable`, the node has certainly not accepted it.
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
                format!("{} rejected its config", step.node.name),
            )
            .caused_by(error)
            .hint("`talmox render` shows the config without its secrets"))
        }
        // The node has a config already, is applying one, or does not answer.
        Err(error) => Ok(Some(error)),
    }
}

/// Waits until the node answers as a node of the cluster. If the node is still in maintenance mode, the config is sent again,
/// because the first request may have been lost.
async fn await_own_node(
    step: &ApplyConfig,
    expected: &Expected,
    address: IpAddr,
    context: &StepContext,
) -> Result<(), StepError> {
    let access = context.cluster()?;
    let name = &step.node.name;
    let awaited = Awaited {
        failure: format!("{name} does not come back with its config"),
        what: format!("{name} to come back with its config"),
    };
    let mut wait =
        ExplainedWait::new(context, awaited).about([&step.node.own]).needing(&step.needs);
    loop {
        let reason = match context.wait(access.probe(address)).await?? {
            Verdict::OwnNode => return Ok(()),
            Verdict::Maintenance(node) => {
                if let Some(why) = node.machine.mismatch(expected) {
                    WaitReason::from(format!("another machine answers: {why}"))
                } else {
                    without_config(apply(step, &node, context).await?.as_ref())
                }
            }
            // Talos closes its port and its connections while it restarts its API.
            Verdict::Nothing(error) | Verdict::Mute(error) => {
                WaitReason::from(format!("{RESTARTING} ({error})"))
            }
            Verdict::Unclear(error) if error.may_pass() => WaitReason::from(RESTARTING),
            other => WaitReason::from(other.to_string()),
        };
        wait.not_yet(reason).await?;
    }
}

/// Reason that is shown for a node that still has no config although the config was sent.
fn without_config(unsure: Option<&TalosError>) -> WaitReason {
    let text = "it still has no config";
    let Some(error) = unsure else { return WaitReason::from(text) };
    let is_silent = matches!(error, TalosError::Late { .. } | TalosError::Lost { .. });
    WaitReason { text: format!("{text}: {error}"), advice: is_silent.then_some(HANGS) }
}

/// Reports a node that runs another version of Talos than its config is for.
async fn note_version(
    step: &ApplyConfig,
    address: IpAddr,
    context: &StepContext,
) -> Result<(), StepError> {
    let client = context.cluster()?.client(address)?;
    // An error is ignored here, because the node answered a moment ago.
    if let Ok(version) = context.wait(client.version()).await?
        && version.tag != step.talos_version
    {
        context.note(format!(
            "{} runs Talos {}, and its config is for {}",
            step.node.name, version.tag, step.talos_version
        ));
    }
    Ok(())
}
