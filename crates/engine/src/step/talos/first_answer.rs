//! Waiting for a machine to answer at all, and finding out whether it is the one that is meant.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use talmox_plan::plan::{ApplyConfig, ConfigBy};
use talmox_talos_api::probe::Maintenance;
use talmox_talos_api::{Expected, Look, Verdict};
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

use super::ground::{Below, Ground};
use super::{locate, machine};
use crate::patience::{GLANCE, LOOK, Patience, STALL};
use crate::step::{ErrorKind, StepCode, StepContext, StepError, pve};

const CONSOLE: &str = "look at the console of the VM; running the same command again goes on";

/// What to do about a node that is in maintenance mode although its config is on a volume.
const NO_CONFIG: &str = "talmox sends no config to it: any machine could answer like this. Check on the console of the VM why Talos \
                         did not read the volume with its config; running the same command again resumes";
/// Pause before another control plane that needs a reset asks for its turn again.
const TURN: Duration = Duration::from_secs(10);

/// Timeout for the question whether Kubernetes lists a node: of a socket, hence in real time.
const KUBERNETES: Duration = Duration::from_secs(5);

/// What is shown while a new machine has not answered yet.
const BOOTING: &str = "booting: waiting for the Talos API to answer";

/// What answers, once it is known to be the machine that is meant.
#[derive(Debug)]
pub(super) enum Found {
    /// It has no config yet, and takes one.
    Waiting {
        node: Box<Maintenance>,
        /// All that it is known by.
        expected: Expected,
    },
    /// It is a node of the cluster.
    Ours,
}

/// Waits for the machine, and resets it at most `most_resets` times if its port stays closed: Talos sometimes stalls on its
/// first boot, and a reset cures it. The last boot gets all of the time that the inventory allows, for machines that are
/// merely slow. A reset that Proxmox rejected is retried, for as long as resets would have taken.
pub(super) async fn first_answer(
    step: &ApplyConfig,
    most_resets: u32,
    context: &StepContext,
) -> Result<(IpAddr, Found), StepError> {
    let name = &step.node.name;
    let is_older = step.resets == 0 || context.seen.was_found(step.node.own.vm.vmid);
    let most_resets = if is_older { 0 } else { most_resets };
    let stall = step.boot.min(STALL);
    let boot = |resets: u32| if resets < most_resets { stall } else { step.boot };
    let last = context.run.clock.deadline(stall * most_resets + step.boot);
    let mut ground = Ground::of(vec![&step.node.own], context);
    let (mut resets, mut patience) = (0, boot(0));
    // Why the last reset was not done, if it was not.
    let mut no_reset: Option<String> = None;
    // Held while a control plane boots after its reset.
    let mut turn: Option<OwnedMutexGuard<()>> = None;
    loop {
        // A machine that stalls again does not keep the turn for all of its last boot.
        let held = if turn.is_some() { patience.min(stall) } else { patience };
        let mut answer = await_answer(step, held, &mut ground, context).await?;
        drop(turn.take());
        if answer.is_err() && held < patience {
            answer =
                await_answer(step, patience.saturating_sub(held), &mut ground, context).await?;
        }
        let silence = match answer {
            Ok(found) => return Ok(found),
            Err(silence) => silence,
        };
        let below = ground.look(context).await.cloned();
        if below.is_none()
            && let Some(why) = &no_reset
        {
            ground.has_no_reset(why.clone());
        }
        let is_late = context.deadline.has_passed() || last.has_passed();
        let is_over = is_late || !silence.is_closed || resets == most_resets;
        if is_over || matches!(below, Some(Below::Down(_))) {
            let times = if resets == 1 { "reset" } else { "resets" };
            let often =
                if resets == 0 { String::new() } else { format!(" after {resets} {times}") };
            let reason = match &below {
                Some(Below::Down(what)) => what.clone(),
                _ => ground.add_to(&silence.reason, silence.is_closed),
            };
            return Err(StepError::failed(
                StepCode::NodeNotAnswering,
                format!("{name} does not come up{often}: {reason}"),
            )
            .hint(match below {
                Some(Below::Down(_)) => {
                    "bring it up, then run the same command to resume".to_owned()
                }
                Some(Below::Silent) if silence.is_closed => pve::UNANSWERED.to_owned(),
                _ if silence.is_closed && is_older => not_reset(step),
                _ => silence.advice.to_owned(),
            }));
        }
        patience = GLANCE;
        if below == Some(Below::Silent) {
            continue;
        }
        if step.node.is_control_plane {
            let lock = Arc::clone(&context.seen.control_plane_reset);
            let Ok(guard) = lock.try_lock_owned() else {
                context.waits("waiting until another control plane that was reset answers");
                patience = TURN;
                continue;
            };
            turn = Some(guard);
        }
        if runs_kubernetes(step, context).await? {
            let text = format!("{name} does not answer: {}", silence.reason);
            return Err(StepError::failed(StepCode::NodeNotAnswering, text)
                .hint(format!(
                    "Kubernetes lists {name} as a node, so its VM is not reset: check that port 50000 is reachable from here. \
                     Then run the same command to resume"
                )));
        }
        match pve::reset(&step.node.own, context).await {
            Ok(()) => {
                let waited = stall.as_secs();
                (resets, no_reset) = (resets + 1, None);
                patience = boot(resets);
                ground.forget();
                context.note(format!(
                    "{name} did not answer within {waited} s of its first boot: its VM was reset ({resets} of {most_resets})"
                ));
            }
            Err(error) if matches!(error.kind, ErrorKind::Retry { .. } | ErrorKind::Locked) => {
                let mut why = vec![error.message.clone()];
                why.extend(error.causes());
                let why = why.join(": ");
                ground.has_no_reset(why.clone());
                no_reset = Some(why);
                turn = None;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Whether a machine whose port is closed has joined the cluster all the same. Only one that reads its config from a volume can:
/// every other one gets its config from talmox, once it answers.
async fn runs_kubernetes(step: &ApplyConfig, context: &StepContext) -> Result<bool, StepError> {
    if step.by != ConfigBy::Volume {
        return Ok(false);
    }
    let kube = context.cluster()?.kube()?;
    let nodes = context.wait(timeout(KUBERNETES, kube.nodes())).await?;
    // Before etcd is bootstrapped there is no Kubernetes that could answer.
    let known = nodes.ok().and_then(Result::ok).unwrap_or_default();
    Ok(known.iter().any(|node| node.name == step.node.name))
}

/// What to do about a VM that this run did not create: it may hold data, so talmox does not reset it.
fn not_reset(step: &ApplyConfig) -> String {
    let vm = &step.node.own.vm;
    format!(
        "check that port 50000 is reachable from here; if the node never came up, reset its VM (on {}: qm reset {}). Then run \
         the same command to resume",
        vm.node, vm.vmid
    )
}

/// Nothing came of a boot.
#[derive(Debug)]
struct Silence {
    reason: String,
    /// The same, as it is shown while it is waited for.
    shown: String,
    /// What can be done about it.
    advice: &'static str,
    /// Whether it is a port that nobody opens.
    is_closed: bool,
}

/// Waits for one boot, so long. Inside, why nothing came of it.
async fn await_answer(
    step: &ApplyConfig,
    patience: Duration,
    ground: &mut Ground<'_>,
    context: &StepContext,
) -> Result<Result<(IpAddr, Found), Silence>, StepError> {
    let clock = context.run.clock;
    let deadline = clock.deadline(patience.min(context.deadline.left()));
    let tell = |reason: &str| context.waits(reason);
    let mut wait = Patience { clock, deadline, pause: LOOK, tell: &tell }.begin();
    loop {
        let silence = match context.wait(look(step, context)).await?? {
            Ok(found) => return Ok(Ok(found)),
            Err(silence) => silence,
        };
        context.still_needs(&step.needs)?;
        // A machine that this run started and whose port is closed is booting, as far as can be known.
        let is_booting = silence.is_closed && step.is_started;
        let shown = if is_booting { BOOTING } else { &silence.shown };
        let shown = ground.explain(shown, silence.is_closed, context).await;
        if context.wait(wait.not_yet(shown)).await?.is_err() {
            return Ok(Err(silence));
        }
    }
}

/// One look. Inside, what keeps us waiting.
async fn look(
    step: &ApplyConfig,
    context: &StepContext,
) -> Result<Result<(IpAddr, Found), Silence>, StepError> {
    let address = match locate(&step.node, context).await {
        Look::Done(address) => address,
        // Without an address nobody knows whether the port is closed, but it comes to the same.
        Look::NotYet(reason) => {
            let shown = reason.clone();
            return Ok(Err(Silence { reason, shown, advice: CONSOLE, is_closed: true }));
        }
    };
    let access = context.cluster()?;
    let verdict = access.probe(address).await?;
    let is_closed = matches!(verdict, Verdict::Nothing(_) | Verdict::Mute(_));
    let unopened = match &verdict {
        Verdict::Nothing(error) => Some(format!("waiting for the Talos API to answer ({error})")),
        _ => None,
    };
    let advice = match &verdict {
        Verdict::Maintenance(_) if step.by == ConfigBy::Volume => NO_CONFIG,
        Verdict::Nothing(_) | Verdict::Maintenance(_) | Verdict::Ours => CONSOLE,
        other => other.advice(),
    };
    let look = match verdict {
        Verdict::Ours => {
            let client = access.client(address)?;
            machine::known_member(&client, &step.node, address).await?.map(|()| Found::Ours)
        }
        Verdict::Maintenance(node) => waiting(step, node, address, context).await?,
        Verdict::OtherAuthority => {
            // A node that just gets its config changes faces: only who stays a stranger is one.
            context.pause(LOOK).await?;
            match access.probe(address).await? {
                Verdict::OtherAuthority => {
                    let why = "it is a node of another cluster";
                    return Err(machine::stranger(&step.node, address, why));
                }
                other => Look::NotYet(other.to_string()),
            }
        }
        other => Look::NotYet(other.to_string()),
    };
    Ok(match look {
        Look::Done(found) => Ok((address, found)),
        Look::NotYet(reason) => {
            let shown = unopened.unwrap_or_else(|| reason.clone());
            Err(Silence { reason, shown, advice, is_closed })
        }
    })
}

/// Whether a machine without a config is the one that is meant, and waits for us to give it one.
async fn waiting(
    step: &ApplyConfig,
    node: Box<Maintenance>,
    address: IpAddr,
    context: &StepContext,
) -> Result<Look<Found>, StepError> {
    let mut meant = step.node.clone();
    if step.by == ConfigBy::Volume {
        // A machine that did not read the volume does not have its instance id. Nothing is sent to it in any case.
        meant.expected.instance_id = None;
    }
    let known = match machine::known(&node.machine, &meant, address)? {
        Look::Done(()) if step.by == ConfigBy::Volume => {
            Look::NotYet("it has not read its config from the volume".to_owned())
        }
        Look::Done(()) if step.has_drive => {
            machine::by_drive(&node.machine, &step.node, address, context).await?
        }
        Look::Done(()) => Look::Done(step.node.expected.clone()),
        Look::NotYet(reason) => Look::NotYet(reason),
    };
    Ok(known.map(|expected| Found::Waiting { node, expected }))
}
