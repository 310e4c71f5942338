//! Changes the config of a running node.
//!
//! A node has two configs: the config in use, and the config on its disk, which its next boot uses. They differ while a
//! config is tried or staged, and may differ after a run that was killed. So each attempt reads both and continues from that
//! state.

use std::net::IpAddr;
use std::time::Duration;

use talmox_clock::WaitError;
use talmox_plan::desired::Contact;
use talmox_plan::plan::{ChangeConfig, ConfigMode, TalosNode};
use talmox_plan::planning::is_same_config;
use talmox_talos_api::client::{Actor, Apply, ApplyMode, RebootMode, ResourceKind};
use talmox_talos_api::{Client, Follow, FollowError, Look, LookError, TalosError, wait};
use talmox_talos_config::secret::SecretText;

use super::preferred_route::PreferredRoutes;
use super::quorum::await_spare;
use super::settled::{await_settled, network_of};
use super::trial_condition::TrialConditions;
use super::{Awaited, ExplainedWait, answer_of, machine, or_wait};
use crate::step::{Done, RunStep, StepCode, StepContext, StepError, secret_text};
use crate::timeouts::{
    CONFIG_EFFECT, CONFIG_REVERT, CONFIG_TRIAL, CONTROL_PLANE_TRIAL, GATEWAY_TRAFFIC,
};

/// Ids of the resources with the configs of a node.
const IN_USE: &str = "v1alpha1";
const ON_DISK: &str = "persistent";

impl RunStep for ChangeConfig {
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        change_config(self, context).await
    }
}

/// A node that answers and has the identity of its VM.
#[derive(Debug)]
struct Reached {
    address: IpAddr,
    client: Client,
}

/// Whether a node has the config of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Has {
    /// Whether the node runs with the config.
    in_use: bool,
    /// Whether the node tries the config, with preferred routes.
    is_tried: bool,
    /// Whether the config is saved on the disk of the node. None if the node does not report the config on its disk: Talos
    /// reports it since 1.10, and only if it was saved since the node booted.
    on_disk: Option<bool>,
}

async fn change_config(step: &ChangeConfig, context: &StepContext) -> Result<Done, StepError> {
    let config = secret_text(&step.config)?;
    let (node, has) = find(step, config, context).await?;
    match (step.mode, has) {
        (_, Has { in_use: true, on_disk: Some(true), .. })
        | (ConfigMode::Staged, Has { on_disk: Some(true), .. }) => return Ok(Done::Already),
        (ConfigMode::Staged, _) => apply(step, &node, ApplyMode::Staged, config, context).await?,
        // The node tries the config already. A second trial would revert to this config, and not to the former one.
        (ConfigMode::Try, Has { in_use: true, .. } | Has { is_tried: true, .. }) => {
            keep(step, &node, None, config, context).await?;
        }
        (ConfigMode::Try, has) => {
            if has.on_disk.is_none() {
                record(step, &node, context).await?;
            }
            let before = conditions(step, &node, context).await?;
            // A changed gateway is used during the trial only if its route is preferred.
            let routes = PreferredRoutes::of(config);
            let changed = routes.filter(|routes| !before.has_gateways(&routes.gateways));
            let tried = changed.map_or_else(|| config.clone(), |routes| routes.config);
            try_config(step, &node, &tried, context).await?;
            keep(step, &node, Some(&before), config, context).await?;
        }
        (_, Has { in_use: true, .. }) | (ConfigMode::Live, _) => {
            apply(step, &node, ApplyMode::NoReboot, config, context).await?;
            await_config(step, config, context).await?;
            if step.node.is_control_plane {
                // Talos defines the static pods again. A check before that would find the former API server.
                context.pause(CONFIG_EFFECT).await?;
            }
        }
        (ConfigMode::Reboot, has) => {
            await_spare(&step.node, &step.control_planes, context).await?;
            if has.on_disk != Some(true) {
                apply(step, &node, ApplyMode::Staged, config, context).await?;
            }
            reboot(step, &node, config, context).await?;
        }
    }
    Ok(Done::Acted)
}

/// Waits until the node answers at its current contact. If an earlier attempt has changed the contact, the node may answer at
/// the new one.
async fn find(
    step: &ChangeConfig,
    config: &SecretText,
    context: &StepContext,
) -> Result<(Reached, Has), StepError> {
    let mut wait = ExplainedWait::new(context, answer_of(&step.node.name)).about([&step.node.own]);
    loop {
        let mut found = context.wait(reach(&step.node, step.node.contact, context)).await?;
        if step.contact != step.node.contact && !matches!(found, Ok(Look::Done(_))) {
            let later = context.wait(reach(&step.node, step.contact, context)).await?;
            if matches!(later, Ok(Look::Done(_))) {
                found = later;
            }
        }
        let node = or_wait!(wait, found?);
        let reason = match context.wait(has_config(&node.client, config)).await? {
            Ok(Some(has)) => return Ok((node, has)),
            Ok(None) => "the node does not return its config".to_owned(),
            Err(error) => error.reason(),
        };
        wait.not_yet(reason).await?;
    }
}

/// Opens a new connection to the node and checks its identity, because another machine may have the address by now.
async fn reach(
    node: &TalosNode,
    contact: Contact,
    context: &StepContext,
) -> Result<Look<Reached>, StepError> {
    let address = match crate::locate::locate(contact, &node.own.vm, &context.run.pve).await {
        Look::Done(address) => address,
        Look::NotYet(reason) => return Ok(Look::NotYet(reason)),
    };
    let client = context.cluster()?.client(address)?;
    let known = machine::known_member(&client, node, address).await?;
    Ok(known.map(|()| Reached { address, client }))
}

/// Whether the config in use and the config on disk are equal to `config`. None if the node does not return the config in
/// use.
async fn has_config(client: &Client, config: &SecretText) -> Result<Option<Has>, TalosError> {
    let version = client.version().await?.tag;
    let found = client.list(ResourceKind::MACHINE_CONFIG).await?;
    let is_it = |id: &str, config: &SecretText| {
        let found = found.iter().find(|found| found.id == id)?;
        Some(is_same_config(&found.config_text(), config, &version))
    };
    let Some(in_use) = is_it(IN_USE, config) else { return Ok(None) };
    let tried = if in_use { None } else { PreferredRoutes::of(config) };
    let is_tried = tried.is_some_and(|tried| is_it(IN_USE, &tried.config) == Some(true));
    Ok(Some(Has { in_use, is_tried, on_disk: is_it(ON_DISK, config) }))
}

/// Sends the config. If the answer is lost, the attempt ends, and the next attempt reads which config the node has.
async fn apply(
    step: &ChangeConfig,
    node: &Reached,
    mode: ApplyMode,
    config: &SecretText,
    context: &StepContext,
) -> Result<(), StepError> {
    match send(step, node, mode, config, context).await? {
        None => Ok(()),
        Some(error) => Err(StepError::retry(
            StepCode::ConfigUnconfirmed,
            format!("{} did not confirm its config", step.node.name),
        )
        .caused_by(error)),
    }
}

/// Sends the config. `Some(error)` means that the node may have accepted the config.
async fn send(
    step: &ChangeConfig,
    node: &Reached,
    mode: ApplyMode,
    config: &SecretText,
    context: &StepContext,
) -> Result<Option<TalosError>, StepError> {
    let apply = Apply { config, mode, dry_run: false };
    match context.act(async { Ok(node.client.apply(&apply).await) }).await? {
        Ok(_) => Ok(None),
        Err(error @ (TalosError::No { .. } | TalosError::Unreadable { .. })) => {
            let text = format!("{} rejected its config", step.node.name);
            Err(StepError::failed(StepCode::TalosRejected, text).caused_by(error).hint(
                "nothing was changed; `talmox plan` shows whether the change needs a reboot, and `talmox render` shows the config",
            ))
        }
        Err(error) => Ok(Some(error)),
    }
}

/// Waits until the node answers at its contact and uses the config.
async fn await_config(
    step: &ChangeConfig,
    config: &SecretText,
    context: &StepContext,
) -> Result<Reached, StepError> {
    let name = &step.node.name;
    let awaited = Awaited {
        failure: format!("{name} does not use its changed config"),
        what: format!("{name} to use its changed config"),
    };
    let mut wait = ExplainedWait::new(context, awaited).about([&step.node.own]);
    loop {
        let reached = context.wait(reach(&step.node, step.contact, context)).await??;
        let node = or_wait!(wait, reached);
        match uses(&node, config, context).await? {
            None => return Ok(node),
            Some(reason) => wait.not_yet(reason).await?,
        }
    }
}

/// Reason why the node does not use the config. None if it does.
async fn uses(
    node: &Reached,
    config: &SecretText,
    context: &StepContext,
) -> Result<Option<String>, StepError> {
    Ok(match context.wait(has_config(&node.client, config)).await? {
        Ok(Some(Has { in_use: true, .. })) => None,
        Ok(_) => Some("it has its former config".to_owned()),
        Err(error) => Some(error.reason()),
    })
}

/// Reason why the node neither uses nor tries the config. None if it does.
async fn tries(
    node: &Reached,
    config: &SecretText,
    context: &StepContext,
) -> Result<Option<String>, StepError> {
    Ok(match context.wait(has_config(&node.client, config)).await? {
        Ok(Some(Has { in_use: true, .. } | Has { is_tried: true, .. })) => None,
        Ok(_) => Some("it has its former config".to_owned()),
        Err(error) => Some(error.reason()),
    })
}

/// Saves the config in use again, so that the node reports it as the config on its disk. Otherwise a run after a killed run
/// could not detect that a config is only tried.
async fn record(
    step: &ChangeConfig,
    node: &Reached,
    context: &StepContext,
) -> Result<(), StepError> {
    let read = node.client.get(ResourceKind::MACHINE_CONFIG, IN_USE);
    match context.wait(read).await? {
        Ok(Some(found)) => {
            apply(step, node, ApplyMode::Staged, &found.config_text(), context).await
        }
        Ok(None) => Ok(()),
        Err(error) => {
            let text = format!("{} did not return its config", step.node.name);
            Err(StepError::retry(StepCode::ConfigUnconfirmed, text).caused_by(error))
        }
    }
}

/// Applies the config on trial.
async fn try_config(
    step: &ChangeConfig,
    node: &Reached,
    config: &SecretText,
    context: &StepContext,
) -> Result<(), StepError> {
    let mode = ApplyMode::Try(Some(trial(step)));
    match send(step, node, mode, config, context).await? {
        // A node that gets another address may lose the connection before it answers.
        None | Some(TalosError::Lost { .. } | TalosError::Late { .. }) => {
            context.pause(CONFIG_EFFECT).await
        }
        Some(error) => {
            let text = format!("{} did not try its config", step.node.name);
            Err(StepError::retry(StepCode::ConfigUnconfirmed, text).caused_by(error))
        }
    }
}

/// Time after which the node reverts the config that it tries.
fn trial(step: &ChangeConfig) -> Duration {
    if step.node.is_control_plane { CONTROL_PLANE_TRIAL } else { CONFIG_TRIAL }
}

/// The conditions of the node before the trial.
async fn conditions(
    step: &ChangeConfig,
    node: &Reached,
    context: &StepContext,
) -> Result<TrialConditions, StepError> {
    let kube = context.cluster()?.kube()?;
    let read = Box::pin(TrialConditions::read(&node.client, &step.node, &kube));
    context.wait(read).await?.map_err(|error| {
        let text = format!("{} did not report the state of its network", step.node.name);
        StepError::retry(StepCode::ConfigUnconfirmed, text).caused_by(error)
    })
}

/// Why a trial cannot be confirmed yet.
enum UnconfirmedChange {
    /// talmox does not reach the node with the config.
    NotReached(String),
    /// The node answers, but a condition is not met that was met before the trial.
    Worse(String),
}

/// Waits until talmox reaches the node with the config that the node tries, and no condition is worse than `before`. Then applies the
/// config permanently. Otherwise the node reverts the config by itself. `former` is the node as it was reached before the trial.
/// Without `before`, an earlier attempt has checked the conditions.
async fn keep(
    step: &ChangeConfig,
    former: &Reached,
    before: Option<&TrialConditions>,
    config: &SecretText,
    context: &StepContext,
) -> Result<(), StepError> {
    let kube = context.cluster()?.kube()?;
    let traffic = context.run.clock.deadline(GATEWAY_TRAFFIC);
    // The wait ends shortly before the node reverts the config, so that the config is not confirmed at the same moment.
    let time = trial(step).saturating_sub(CONFIG_EFFECT * 2);
    let what = format!("{} to work with its changed config", step.node.name);
    let mut wait = context.cancellable_wait(context.run.clock.deadline(time), what);
    let mut last_worse: Option<String> = None;
    loop {
        let unconfirmed = match context.wait(reach(&step.node, step.contact, context)).await? {
            Ok(Look::Done(node)) => {
                let worse =
                    match (tries(&node, config, context).await?, before) {
                        // After a condition that was not met, the former config means that the node has reverted the trial.
                        (Some(reason), _) => Some(last_worse.clone().map_or(
                            UnconfirmedChange::NotReached(reason),
                            UnconfirmedChange::Worse,
                        )),
                        (None, None) => None,
                        (None, Some(before)) => {
                            let read = TrialConditions::read(&node.client, &step.node, &kube);
                            let worse = match context.wait(Box::pin(read)).await? {
                                Ok(now) => now.worse_than(before, traffic.has_passed()),
                                Err(error) => Some(error.reason()),
                            };
                            last_worse.clone_from(&worse);
                            worse.map(UnconfirmedChange::Worse)
                        }
                    };
                let Some(worse) = worse else {
                    return apply(step, &node, ApplyMode::NoReboot, config, context).await;
                };
                worse
            }
            Ok(Look::NotYet(reason)) => UnconfirmedChange::NotReached(reason),
            // Another machine has the address.
            Err(error) => UnconfirmedChange::NotReached(error.to_string()),
        };
        let (UnconfirmedChange::NotReached(reason) | UnconfirmedChange::Worse(reason)) =
            &unconfirmed;
        match wait.not_yet(reason.clone()).await {
            Ok(()) => {}
            Err(WaitError::Cancelled) => return Err(StepError::cancelled()),
            Err(WaitError::TimedOut { .. }) => {
                return Err(reverted(step, former.address, config, &unconfirmed, context).await?);
            }
        }
    }
}

/// The error of a trial that was not confirmed. Waits until the node answers with its former config.
async fn reverted(
    step: &ChangeConfig,
    former: IpAddr,
    config: &SecretText,
    unconfirmed: &UnconfirmedChange,
    context: &StepContext,
) -> Result<StepError, StepError> {
    let name = &step.node.name;
    let what = format!("{name} to revert its changed config");
    let mut wait = context.cancellable_wait(context.run.clock.deadline(CONFIG_REVERT), what);
    let state = loop {
        let reached = context.wait(reach(&step.node, Contact::At(former), context)).await?;
        let why = match reached {
            Ok(Look::Done(node)) => match tries(&node, config, context).await? {
                Some(_) => break format!("it has reverted it by itself, and answers at {former}"),
                None => "it still has the changed config".to_owned(),
            },
            Ok(Look::NotYet(reason)) => reason,
            Err(error) => error.to_string(),
        };
        match wait.not_yet(why).await {
            Ok(()) => {}
            Err(WaitError::Cancelled) => return Err(StepError::cancelled()),
            Err(WaitError::TimedOut { reason, .. }) => {
                break format!(
                    "it reverts it by itself, but does not answer at {former} yet: {reason}"
                );
            }
        }
    };
    let text = match unconfirmed {
        UnconfirmedChange::NotReached(reason) => {
            format!("{name} was not reached with its changed config ({reason}); {state}")
        }
        UnconfirmedChange::Worse(reason) => {
            format!("{name} does not work with its changed config ({reason}); {state}")
        }
    };
    Ok(StepError::failed(StepCode::ConfigReverted, text).hint(
        "correct the address, gateway, nameserver or patch that was changed in the inventory, then run the same command",
    ))
}

/// Reboots the node, so that it uses the config on its disk, and waits until it runs again.
///
/// The config is staged before the reboot, and not applied with a reboot, because Talos 1.14 has no such mode. If a run is
/// killed between the two requests, the config in use still differs, so the next plan reboots the node.
async fn reboot(
    step: &ChangeConfig,
    node: &Reached,
    config: &SecretText,
    context: &StepContext,
) -> Result<(), StepError> {
    let name = &step.node.name;
    let unconfirmed = |error: TalosError| {
        let text = format!("{name} did not confirm its reboot");
        StepError::retry(StepCode::ConfigUnconfirmed, text).caused_by(error)
    };
    let follow = context.wait(Follow::prepare(&node.client)).await?.map_err(unconfirmed)?;
    let actor = context
        .act(async { node.client.reboot(RebootMode::Default).await.map_err(unconfirmed) })
        .await?;
    if step.contact == step.node.contact {
        await_boot(name, &follow, &actor, context).await?;
    }
    let node = await_config(step, config, context).await?;
    let awaited = Awaited {
        failure: format!("{name} does not run again"),
        what: format!("{name} to run again"),
    };
    let mut wait = ExplainedWait::new(context, awaited).about([&step.node.own]);
    loop {
        let reason = match context.wait(wait::machine_ready(&node.client)).await? {
            Ok(Look::Done(())) => break,
            Ok(Look::NotYet(reason)) => reason,
            Err(error) => error.reason(),
        };
        wait.not_yet(reason).await?;
    }
    let mut wait = ExplainedWait::new(context, network_of(name)).about([&step.node.own]);
    await_settled(&step.shape, node.address, &mut wait, context).await
}

async fn await_boot(
    name: &str,
    follow: &Follow,
    actor: &Actor,
    context: &StepContext,
) -> Result<(), StepError> {
    let what = format!("{name} to reboot");
    let mut wait = context.cancellable_wait(context.deadline.clone(), what);
    let Err(error) = follow.to_running(actor, &mut wait).await else { return Ok(()) };
    Err(match error {
        FollowError::Look(LookError::Wait(WaitError::Cancelled)) => StepError::cancelled(),
        FollowError::Look(LookError::Wait(WaitError::TimedOut { reason, .. })) => {
            let text = format!("{name} does not come back from its reboot in time: {reason}");
            StepError::failed(StepCode::Timeout, text)
                .hint("look at the console of its VM; then run the same command to resume")
        }
        other => {
            let text = format!("{name} did not reboot");
            StepError::failed(StepCode::TalosRejected, text).caused_by(other)
        }
    })
}
