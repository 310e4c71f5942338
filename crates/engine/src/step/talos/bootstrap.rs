//! Makes the first member of etcd, on one control plane, once.
//!
//! A second bootstrap would be a second cluster. It is ruled out by asking every other control plane
//! right before the act; who cannot be asked, and may have data, is a reason to stop.

use talmox_clock::Deadline;
use talmox_talos_api::{Code, Look, TalosError, Verdict};

use super::etcd::EtcdData;
use super::machine::{self, Told};
use super::{StepWait, locate, or_wait};
use crate::patience::WITNESS;
use crate::plan::{BootstrapEtcd, Evidence, Witness};
use crate::step::{Done, StepContext, StepError};

pub(in crate::step) async fn bootstrap_etcd(
    step: &BootstrapEtcd,
    context: &StepContext,
) -> Result<Done, StepError> {
    let witness_deadline = context.run.clock.deadline(WITNESS.min(context.deadline.left()));
    let mut done = Done::Already;
    // The boot in which the node accepted the request. Talos keeps the request in memory only, and a second one stops the etcd
    // that the first one is starting: it is repeated only after a reboot.
    let mut accepted_in: Option<String> = None;
    let what = format!("etcd does not come up on {}", step.node.name);
    let mut wait = StepWait::new(context, what).about([&step.node.own]);
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
        if accepted_in.as_ref() == Some(&boot) {
            wait.not_yet(progress).await?;
            continue;
        }
        if let Some(reason) = witnesses(step, context, witness_deadline).await? {
            wait.not_yet(reason).await?;
            continue;
        }
        let reason = match context.act(async { Ok(client.bootstrap().await) }).await? {
            Ok(()) => {
                done = Done::Acted;
                accepted_in = Some(boot);
                "etcd is starting".to_owned()
            }
            Err(TalosError::No { code: Code::AlreadyExists, .. }) => "etcd is starting".to_owned(),
            Err(error) if error.may_pass() => error.reason(),
            Err(error) => {
                return Err(StepError::failed(format!("bootstrap etcd on {}", step.node.name))
                    .caused_by(error));
            }
        };
        wait.not_yet(reason).await?;
    }
}

/// Why it cannot be done yet, if it cannot.
async fn witnesses(
    step: &BootstrapEtcd,
    context: &StepContext,
    deadline: Deadline,
) -> Result<Option<String>, StepError> {
    // Who has a fresh disk cannot have data, and need not be up to be asked.
    let others = step.witnesses.iter().filter(|one| one.evidence == Evidence::Answer);
    for witness in others {
        let name = &witness.node.name;
        let Err(reason) = ask(witness, context).await? else { continue };
        if deadline.has_passed() {
            return Err(StepError::failed(format!(
                "etcd is not bootstrapped: {name} was made earlier and may have its data, \
                 and cannot be asked: {reason}"
            ))
            .hint(format!(
                "bring it up. Only if its data is to be lost, on {}: qm stop {vmid} && qm destroy {vmid} --purge; the \
                 same command then makes it anew",
                witness.node.own.vm.node,
                vmid = witness.node.own.vm.vmid,
            )));
        }
        return Ok(Some(format!("{name} must say whether it has data of etcd: {reason}")));
    }
    Ok(None)
}

/// Whether it has no data of etcd; inside, why it cannot be asked. Only the machine itself can say so: whoever else has
/// its address knows nothing about it.
async fn ask(witness: &Witness, context: &StepContext) -> Result<Result<(), String>, StepError> {
    let name = &witness.node.name;
    let address = match locate(&witness.node, context).await {
        Look::Done(address) => address,
        Look::NotYet(reason) => return Ok(Err(reason)),
    };
    let client = context.cluster()?.client(address)?;
    let verdict = context.cluster()?.probe(address).await?;
    let told = match &verdict {
        Verdict::Maintenance(found) => machine::told(&found.machine, &witness.node.expected),
        Verdict::Ours => machine::ask(&client, &witness.node).await,
        other => return Ok(Err(other.to_string())),
    };
    match told {
        Told::Same => {}
        Told::NotYet(reason) => return Ok(Err(reason)),
        Told::Other(why) => return Ok(Err(format!("at {address} is another machine: {why}"))),
    }
    // Without a config there is no etcd.
    if matches!(verdict, Verdict::Maintenance(_)) {
        return Ok(Ok(()));
    }
    let refused = |what: &str, hint: &str| {
        Err(StepError::failed(format!("etcd is not bootstrapped: {name} {what}")).hint(hint))
    };
    match EtcdData::read(&client).await {
        Ok(EtcdData::Nothing(_)) => Ok(Ok(())),
        Ok(EtcdData::AtRest | EtcdData::Starting(_)) => refused(
            "has its data, and does not run it",
            "this cluster has been bootstrapped before, and a second time would make it two: see that enough of its \
             other control planes are up, or restore a backup",
        ),
        Ok(EtcdData::Member) => refused(
            "is a member of it already",
            "this cluster has been bootstrapped before: the same command again lets a new control plane join it",
        ),
        Err(error) => Ok(Err(error.reason())),
    }
}
