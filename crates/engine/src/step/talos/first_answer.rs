//! Waiting for the first answer of a machine, and checking its identity.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use talmox_clock::WaitError;
use talmox_plan::plan::{ApplyConfig, ConfigBy};
use talmox_talos_api::probe::Maintenance;
use talmox_talos_api::{Expected, Look, Verdict};
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

use super::vm_check::{VmCheck, VmProblem};
use super::{locate, machine};
use crate::step::{ErrorKind, StepCode, StepContext, StepError, pve};
use crate::timeouts::{BOOT_STALL, NODE_PAUSE, VM_CHECK};

const CONSOLE: &str = "check the console of the VM; then run the same command to resume";

/// Hint for a node that is in maintenance mode although its config is on a volume.
const NO_CONFIG: &str = "talmox sends no config to it: any machine could answer like this. Check on the console of the VM why Talos \
                         did not read the volume with its config; then run the same command to resume";
/// Pause before a control plane that needs a reset tries again to lock `control_plane_reset`.
const TURN: Duration = Duration::from_secs(10);

/// Timeout of the request whether Kubernetes lists a node. It is in real time, because it limits a network connection.
const KUBERNETES: Duration = Duration::from_secs(5);

/// Reason that is shown while a new machine has not answered yet.
const BOOTING: &str = "booting: waiting for the Talos API to answer";

/// State of the machine, once its identity is known.
#[derive(Debug)]
pub(super) enum FirstAnswer {
    /// The machine has no config yet, and accepts one.
    Maintenance {
        node: Box<Maintenance>,
        /// The complete identity of the machine.
        expected: Expected,
    },
    /// The machine is a node of the cluster.
    OwnNode,
}

/// Waits for the machine. Resets the machine at most `most_resets` times if its port stays closed, because Talos sometimes
/// stalls on its first boot, and a reset fixes that. The last boot gets the whole boot time of the inventory, for machines
/// that are only slow. A reset that Proxmox rejected is retried, for as long as resets would have taken.
pub(super) async fn first_answer(
    step: &ApplyConfig,
    most_resets: u32,
    context: &StepContext,
) -> Result<(IpAddr, FirstAnswer), StepError> {
    let name = &step.node.name;
    let is_older = step.resets == 0 || context.vm_cache.was_found(step.node.own.vm.vmid);
    let most_resets = if is_older { 0 } else { most_resets };
    let stall = step.boot.min(BOOT_STALL);
    let boot = |resets: u32| if resets < most_resets { stall } else { step.boot };
    let last = context.run.clock.deadline(stall * most_resets + step.boot);
    let mut vm_check = VmCheck::of(vec![&step.node.own], context);
    let (mut resets, mut boot_time) = (0, boot(0));
    // Reason why Proxmox rejected the last reset. None if it did not.
    let mut no_reset: Option<String> = None;
    // Guard that is held while a control plane boots after its reset.
    let mut turn: Option<OwnedMutexGuard<()>> = None;
    loop {
        // A machine that stalls again does not hold the guard for the whole time of its last boot.
        let held = if turn.is_some() { boot_time.min(stall) } else { boot_time };
        let mut answer = await_answer(step, held, &mut vm_check, context).await?;
        drop(turn.take());
        if answer.is_err() && held < boot_time {
            answer =
                await_answer(step, boot_time.saturating_sub(held), &mut vm_check, context).await?;
        }
        let silence = match answer {
            Ok(found) => return Ok(found),
            Err(silence) => silence,
        };
        let vm_problem = vm_check.look(context).await.cloned();
        if vm_problem.is_none()
            && let Some(why) = &no_reset
        {
            vm_check.has_no_reset(why.clone());
        }
        let is_late = context.deadline.has_passed() || last.has_passed();
        let is_over = is_late || !silence.is_closed || resets == most_resets;
        if is_over || matches!(vm_problem, Some(VmProblem::Down(_))) {
            let times = if resets == 1 { "reset" } else { "resets" };
            let often =
                if resets == 0 { String::new() } else { format!(" after {resets} {times}") };
            let reason = match &vm_problem {
                Some(VmProblem::Down(what)) => what.clone(),
                _ => vm_check.add_to(&silence.reason, silence.is_closed),
            };
            return Err(StepError::failed(
                StepCode::NodeNotAnswering,
                format!("{name} does not come up{often}: {reason}"),
            )
            .hint(match vm_problem {
                Some(VmProblem::Down(_)) => {
                    "bring it up, then run the same command to resume".to_owned()
                }
                Some(VmProblem::Silent) if silence.is_closed => pve::UNANSWERED.to_owned(),
                _ if silence.is_closed && is_older => not_reset(step),
                _ => silence.advice.to_owned(),
            }));
        }
        boot_time = VM_CHECK;
        if vm_problem == Some(VmProblem::Silent) {
            continue;
        }
        if step.node.is_control_plane {
            let lock = Arc::clone(&context.vm_cache.control_plane_reset);
            let Ok(guard) = lock.try_lock_owned() else {
                context.waits_for("another control plane that was reset to answer");
                boot_time = TURN;
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
                boot_time = boot(resets);
                vm_check.forget();
                context.note(format!(
                    "{name} did not answer within {waited} s of its first boot: its VM was reset ({resets} of {most_resets})"
                ));
            }
            Err(error) if matches!(error.kind, ErrorKind::Retry { .. } | ErrorKind::Locked) => {
                let mut why = vec![error.message.clone()];
                why.extend(error.causes());
                let why = why.join(": ");
                vm_check.has_no_reset(why.clone());
                no_reset = Some(why);
                turn = None;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Whether a machine has joined the cluster although its port is closed. Only a machine that reads its config from a volume
/// can do that. Every other machine gets its config from talmox, after it answers.
async fn runs_kubernetes(step: &ApplyConfig, context: &StepContext) -> Result<bool, StepError> {
    if step.by != ConfigBy::Volume {
        return Ok(false);
    }
    let kube = context.cluster()?.kube()?;
    let nodes = context.wait(timeout(KUBERNETES, kube.nodes())).await?;
    // Before etcd is bootstrapped, no Kubernetes API answers.
    let known = nodes.ok().and_then(Result::ok).unwrap_or_default();
    Ok(known.iter().any(|node| node.name == step.node.name))
}

/// Hint for a VM that this run did not create. talmox does not reset such a VM, because it may hold data.
fn not_reset(step: &ApplyConfig) -> String {
    let vm = &step.node.own.vm;
    format!(
        "check that port 50000 is reachable from here; if the node never came up, reset its VM (on {}: qm reset {}). Then run \
         the same command to resume",
        vm.node, vm.vmid
    )
}

/// Result of a boot in which the machine did not answer.
#[derive(Debug)]
struct Silence {
    reason: String,
    /// The reason as it is shown during the wait.
    shown: String,
    /// Hint for the error.
    advice: &'static str,
    /// Whether the port is closed.
    is_closed: bool,
}

/// Waits for the first answer of the machine after a boot, at most for `boot_time`. The inner error contains the reason
/// why the machine did not answer.
async fn await_answer(
    step: &ApplyConfig,
    boot_time: Duration,
    vm_check: &mut VmCheck<'_>,
    context: &StepContext,
) -> Result<Result<(IpAddr, FirstAnswer), Silence>, StepError> {
    let clock = context.run.clock;
    let deadline = clock.deadline(boot_time.min(context.deadline.left()));
    let what = format!("{} to answer", step.node.name);
    let mut wait = context.cancellable_wait(deadline, what);
    loop {
        let silence = match context.wait(look(step, context)).await?? {
            Ok(found) => return Ok(Ok(found)),
            Err(silence) => silence,
        };
        context.still_needs(&step.needs)?;
        // A machine that this run started and whose port is closed is shown as booting.
        let is_booting = silence.is_closed && step.is_started;
        let shown = if is_booting { BOOTING } else { &silence.shown };
        let shown = vm_check.explain(shown, silence.is_closed, context).await;
        match wait.not_yet(shown).await {
            Ok(()) => {}
            Err(WaitError::Cancelled) => return Err(StepError::cancelled()),
            Err(WaitError::TimedOut { .. }) => return Ok(Err(silence)),
        }
    }
}

/// Checks once whether the machine answers. The inner error is the reason to wait longer.
async fn look(
    step: &ApplyConfig,
    context: &StepContext,
) -> Result<Result<(IpAddr, FirstAnswer), Silence>, StepError> {
    let address = match locate(&step.node, context).await {
        Look::Done(address) => address,
        // A machine without an address counts as one with a closed port.
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
        Verdict::Nothing(_) | Verdict::Maintenance(_) | Verdict::OwnNode => CONSOLE,
        other => other.advice(),
    };
    let look = match verdict {
        Verdict::OwnNode => {
            let client = access.client(address)?;
            machine::known_member(&client, &step.node, address)
                .await?
                .map(|()| FirstAnswer::OwnNode)
        }
        Verdict::Maintenance(node) => in_maintenance(step, node, address, context).await?,
        Verdict::OtherAuthority => {
            // A node changes its certificate while it applies its config, so another authority counts only if it persists.
            context.pause(NODE_PAUSE).await?;
            match access.probe(address).await? {
                Verdict::OtherAuthority => {
                    let why = "it is a node of another cluster";
                    return Err(machine::other_machine(&step.node, address, why));
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

/// Whether a machine without a config is the machine of the node, and accepts a config.
async fn in_maintenance(
    step: &ApplyConfig,
    node: Box<Maintenance>,
    address: IpAddr,
    context: &StepContext,
) -> Result<Look<FirstAnswer>, StepError> {
    let mut meant = step.node.clone();
    if step.by == ConfigBy::Volume {
        // A machine that did not read the volume does not have the instance id on it. No config is sent to such a machine.
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
    Ok(known.map(|expected| FirstAnswer::Maintenance { node, expected }))
}
