//! Everybody who may know of an etcd cluster is asked right before one is bootstrapped.
//!
//! A second bootstrap would be a second cluster with the same identity, beside one that may hold data. Nobody who may have
//! data may be left out because the inventory no longer names it: Proxmox is asked for all VMs with a sign of this cluster, and
//! the shared address, the endpoint, and the addresses in older client files, whatever machine answers there.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_plan::desired::Contact;
use talmox_plan::ownership::Identity;
use talmox_plan::plan::{BootstrapEtcd, Evidence, OwnVm, TalosNode};
use talmox_talos_api::{Look, Verdict};
use tokio::task::JoinSet;
use tracing::Instrument as _;

use super::census::{Census, Suspect};
use super::etcd::EtcdData;
use super::locate;
use super::machine::{self, Told};
use crate::step::{StepCode, StepContext, StepError};

/// Timeout for a VM that need not answer.
const GLIMPSE: Duration = Duration::from_secs(5);
/// The least of it on the clock of the machine, however fast a lab is: bytes cross a real network.
const LEAST: Duration = Duration::from_secs(1);
const EXISTS: &str = "this cluster has been bootstrapped before, and a second time would make it two: see that its control \
                      planes are in the inventory with the names, numbers and addresses that they have";

fn glimpse(clock: Clock) -> Duration {
    GLIMPSE.max(LEAST.mul_f64(clock.speed()))
}

/// Why nothing can be bootstrapped yet.
#[derive(Debug)]
pub(super) struct Objection {
    pub(super) reason: String,
    /// What a person can do if it stays so.
    pub(super) hint: String,
}

/// Asks everybody. An error is final: there is data. An objection may pass.
pub(super) async fn ask_all(
    step: &BootstrapEtcd,
    context: &StepContext,
) -> Result<Option<Objection>, StepError> {
    let (kubernetes, anywhere, census) = tokio::join!(
        ask_kubernetes(context),
        ask_addresses(step, context),
        Census::take(step, context),
    );
    kubernetes?;
    anywhere?;
    let census = match census? {
        Ok(census) => census,
        Err(reason) => {
            let hint = "see that Proxmox answers; then run the same command to resume".to_owned();
            return Ok(Some(Objection { reason, hint }));
        }
    };
    if let Some(unread) = census.unread.first() {
        return Ok(Some(Objection {
            reason: format!("a VM that may hold etcd data of this cluster cannot be read: {unread}"),
            hint: "see that its host is up and that the token may read it; then run the same command to resume".to_owned(),
        }));
    }
    let mut optional = vec![];
    for witness in &step.witnesses {
        let vmid = witness.node.own.vm.vmid;
        let is_listed = census.suspects.iter().any(|suspect| suspect.vm.vmid == vmid);
        // A disk that this run made is empty. One that the plan wanted to make, and another run made, is among the suspects.
        let is_fresh = witness.evidence == Evidence::FreshDisk && !is_listed;
        if context.seen.is_created(vmid) || is_fresh {
            optional.push(witness.node.clone());
            continue;
        }
        let Err(reason) = ask(&witness.node, context).await? else { continue };
        return Ok(Some(silent(&witness.node.name, &witness.node.own, &reason)));
    }
    for suspect in &census.suspects {
        let is_asked = |node: &TalosNode| node.own.vm.vmid == suspect.vm.vmid;
        if step.witnesses.iter().any(|witness| is_asked(&witness.node)) {
            continue;
        }
        if suspect.may_be_silent {
            let told = suspect.addresses.iter().map(|address| Contact::At(*address));
            optional.extend(told.map(|contact| node_of(step, suspect, contact)));
            continue;
        }
        if let Some(objection) = ask_suspect(step, suspect, context).await? {
            return Ok(Some(objection));
        }
    }
    ask_if_there(optional, context).await?;
    Ok(None)
}

fn silent(name: &str, own: &OwnVm, reason: &str) -> Objection {
    let (vmid, host) = (own.vm.vmid, &own.vm.node);
    Objection {
        reason: format!(
            "{name} was made earlier and may have its data, and cannot be asked: {reason}"
        ),
        hint: format!(
            "bring VM {vmid} on {host} up and see that it answers at its address; then run the same command to resume"
        ),
    }
}

/// A VM with a sign of this cluster that the inventory does not name as a control plane.
async fn ask_suspect(
    step: &BootstrapEtcd,
    suspect: &Suspect,
    context: &StepContext,
) -> Result<Option<Objection>, StepError> {
    let own = node_of(step, suspect, Contact::AskAgent).own;
    let objection = |reason: &str| {
        let mut objection = silent(&suspect.name, &own, reason);
        if suspect.is_role_unknown {
            objection.hint.push_str(
                "\nif an earlier release of talmox made it as a worker, and it was never a control plane, add the word \
                 role=worker to the line of its notes that starts with talmox/1",
            );
        }
        Ok(Some(objection))
    };
    if !suspect.is_running {
        return objection("its VM does not run");
    }
    let told = suspect.addresses.iter().map(|address| Contact::At(*address));
    let mut reasons = vec![];
    for contact in told.chain([Contact::AskAgent]) {
        match ask(&node_of(step, suspect, contact), context).await? {
            Ok(()) => return Ok(None),
            Err(reason) => reasons.push(reason),
        }
    }
    objection(&reasons.join("; "))
}

fn node_of(step: &BootstrapEtcd, suspect: &Suspect, contact: Contact) -> TalosNode {
    let identity = Identity { node: suspect.name.clone(), ..step.node.own.identity.clone() };
    TalosNode {
        name: suspect.name.clone(),
        own: OwnVm { vm: suspect.vm.clone(), identity },
        contact,
        expected: suspect.expected.clone(),
        is_control_plane: !suspect.may_be_silent,
    }
}

/// Asks those who need not answer: silence says nothing, data does. One that only starts etcd may wait for this bootstrap.
async fn ask_if_there(nodes: Vec<TalosNode>, context: &StepContext) -> Result<(), StepError> {
    let mut asked = JoinSet::new();
    for node in nodes {
        let context = context.clone();
        let asking = async move {
            let asking = Box::pin(read(&node, &context));
            match context.run.clock.timeout(glimpse(context.run.clock), asking).await {
                Ok(Ok(Ok(data @ (EtcdData::Member | EtcdData::AtRest)))) => {
                    has_none(&node.name, &data)
                }
                _ => Ok(()),
            }
        };
        asked.spawn(asking.in_current_span());
    }
    context.wait(asked.join_all()).await?.into_iter().collect()
}

/// Whether a node has no data of etcd; inside, why it cannot be asked.
async fn ask(node: &TalosNode, context: &StepContext) -> Result<Result<(), String>, StepError> {
    match read(node, context).await? {
        Ok(data) => has_none(&node.name, &data).map(Ok),
        Err(reason) => Ok(Err(reason)),
    }
}

/// What a node says of its etcd; inside, why it cannot be asked. Only the machine itself can say so: another machine at its
/// address knows nothing about it.
async fn read(
    node: &TalosNode,
    context: &StepContext,
) -> Result<Result<EtcdData, String>, StepError> {
    let address = match locate(node, context).await {
        Look::Done(address) => address,
        Look::NotYet(reason) => return Ok(Err(reason)),
    };
    let client = context.cluster()?.client(address)?;
    let verdict = context.cluster()?.probe(address).await?;
    let told = match &verdict {
        Verdict::Maintenance(found) => machine::told(&found.machine, &node.expected),
        Verdict::Ours => machine::ask(&client, node).await,
        other => return Ok(Err(other.to_string())),
    };
    match told {
        Told::Same => {}
        Told::NotYet(reason) => return Ok(Err(reason)),
        Told::Other(why) => return Ok(Err(format!("at {address} is another machine: {why}"))),
    }
    // Without a config there is no etcd.
    if matches!(verdict, Verdict::Maintenance(_)) {
        return Ok(Ok(EtcdData::Nothing("it has no config".to_owned())));
    }
    Ok(EtcdData::read(&client).await.map_err(|error| error.reason()))
}

/// Refuses if there is data.
fn has_none(name: &str, data: &EtcdData) -> Result<(), StepError> {
    let refused = |what: &str, hint: &str| {
        Err(StepError::failed(
            StepCode::BootstrapUnsafe,
            format!("etcd is not bootstrapped: {name} {what}"),
        )
        .hint(hint))
    };
    match data {
        EtcdData::Nothing(_) => Ok(()),
        EtcdData::AtRest | EtcdData::Starting(_) => refused(
            "has its data, and does not run it",
            "this cluster has been bootstrapped before, and a second time would make it two: see that enough of its \
             other control planes are up, or restore a backup",
        ),
        EtcdData::Member => refused(
            "is a member of it already",
            "this cluster has been bootstrapped before: the same command again lets a new control plane join it",
        ),
    }
}

/// A Kubernetes API with this cluster's authority has an etcd behind it.
async fn ask_kubernetes(context: &StepContext) -> Result<(), StepError> {
    let kube = context.cluster()?.kube()?;
    let asked =
        context.run.clock.timeout(glimpse(context.run.clock), Box::pin(kube.version())).await;
    match asked {
        Ok(Ok(_)) => Err(StepError::failed(
            StepCode::BootstrapUnsafe,
            "etcd is not bootstrapped: the Kubernetes API of this cluster answers",
        )
        .hint(EXISTS)),
        Ok(Err(_)) | Err(_) => Ok(()),
    }
}

/// Asks the machine at an address of the cluster as a whole, or was there when its client files were written.
async fn ask_addresses(step: &BootstrapEtcd, context: &StepContext) -> Result<(), StepError> {
    let access = context.cluster()?;
    let own = match step.node.contact {
        Contact::At(address) => Some(address),
        Contact::AskAgent => None,
    };
    let all: BTreeSet<IpAddr> =
        step.signs.addresses.iter().chain(&access.earlier).copied().collect();
    let mut asked = JoinSet::new();
    for address in all.into_iter().filter(|address| Some(*address) != own) {
        let (access, clock) = (access.clone(), context.run.clock);
        let asking = async move {
            let asking = Box::pin(async {
                if !matches!(access.probe(address).await, Ok(Verdict::Ours)) {
                    return None;
                }
                EtcdData::read(&access.client(address).ok()?).await.ok()
            });
            let data = clock.timeout(glimpse(clock), asking).await.ok().flatten();
            data.map_or(Ok(()), |data| has_none(&format!("the node at {address}"), &data))
        };
        asked.spawn(asking.in_current_span());
    }
    context.wait(asked.join_all()).await?.into_iter().collect()
}
