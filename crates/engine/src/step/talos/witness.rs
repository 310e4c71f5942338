//! Reads all witnesses right before etcd is bootstrapped.
//!
//! A second bootstrap would create a second cluster with the same identity, beside a cluster that may hold data. Witnesses
//! are not limited to the inventory. They are all VMs in Proxmox with a sign of this cluster, and the machines at the shared
//! address, the endpoint, and the addresses in older client files.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_plan::desired::Contact;
use talmox_plan::observed::{Answer, Unobserved};
use talmox_plan::ownership::{Identity, UnmarkedSign};
use talmox_plan::plan::{BootstrapEtcd, Evidence, OwnVm, TalosNode};
use talmox_talos_api::{Look, TalosError, Verdict};
use tokio::task::JoinSet;
use tracing::Instrument as _;

use super::etcd::EtcdData;
use super::locate;
use super::machine::{self, IdentityMatch};
use super::possible_members::{PossibleMember, PossibleMembers};
use crate::step::{StepCode, StepContext, StepError};

/// Timeout of a VM that does not have to answer.
const GLIMPSE: Duration = Duration::from_secs(5);
/// Minimum timeout, in real time. It also applies in a fast lab, because requests need real time on the network.
const LEAST: Duration = Duration::from_secs(1);
const EXISTS: &str = "this cluster has been bootstrapped before, and a second bootstrap would create another one: check that its \
                      control planes are in the inventory with their names, vmids and addresses";

fn glimpse(clock: Clock) -> Duration {
    GLIMPSE.max(LEAST.mul_f64(clock.speed()))
}

/// Reason why etcd cannot be bootstrapped yet.
#[derive(Debug)]
pub(super) struct Objection {
    pub(super) reason: String,
    /// Hint for the user if the reason persists.
    pub(super) hint: String,
}

/// Reads all witnesses. Returns an error if a witness has etcd data, because no retry changes that. Returns an objection if a
/// witness cannot be read yet, because a retry may change that.
pub(super) async fn ask_all(
    step: &BootstrapEtcd,
    context: &StepContext,
) -> Result<Option<Objection>, StepError> {
    let (kubernetes, anywhere, possible) = tokio::join!(
        ask_kubernetes(context),
        ask_addresses(step, context),
        PossibleMembers::search(step, context),
    );
    kubernetes?;
    anywhere?;
    let possible = match possible? {
        Ok(possible) => possible,
        Err(reason) => {
            let hint = "check that Proxmox answers; then run the same command to resume".to_owned();
            return Ok(Some(Objection { reason, hint }));
        }
    };
    if let Some(unread) = possible.unread.first() {
        return Ok(Some(Objection {
            reason: format!("a VM that may hold etcd data of this cluster cannot be read: {unread}"),
            hint: "check that its host is up and that the token may read it; then run the same command to resume".to_owned(),
        }));
    }
    let mut optional = vec![];
    for witness in &step.witnesses {
        let vmid = witness.node.own.vm.vmid;
        let is_listed = possible.members.iter().any(|member| member.vm.vmid == vmid);
        // A disk that this run created is empty. If another run created a VM in its place, `possible.members` contains that
        // VM.
        let is_fresh = witness.evidence == Evidence::FreshDisk && !is_listed;
        if context.vm_cache.is_created(vmid) || is_fresh {
            optional.push(witness.node.clone());
            continue;
        }
        let Err(reason) = ask(&witness.node, context).await? else { continue };
        return Ok(Some(silent(&witness.node.name, &witness.node.own, reason.reason())));
    }
    for member in &possible.members {
        let is_asked = |node: &TalosNode| node.own.vm.vmid == member.vm.vmid;
        if step.witnesses.iter().any(|witness| is_asked(&witness.node)) {
            continue;
        }
        if member.may_be_silent {
            let reported = member.addresses.iter().map(|address| Contact::At(*address));
            optional.extend(reported.map(|contact| node_of(step, member, contact)));
            continue;
        }
        if let Some(objection) = ask_member(step, member, context).await? {
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
            "{name} was created earlier and may have etcd data, and cannot be read: {reason}"
        ),
        hint: format!(
            "bring VM {vmid} on {host} up and check that it answers at its address; then run the same command to resume"
        ),
    }
}

/// The objection for a VM without a marker in its notes.
fn unmarked(
    step: &BootstrapEtcd,
    member: &PossibleMember,
    sign: UnmarkedSign,
    reason: &str,
) -> Objection {
    let (vmid, host, name) = (member.vm.vmid, &member.vm.node, &member.name);
    let (cluster, mark) = (&step.signs.cluster, &step.signs.mark);
    Objection {
        reason: format!(
            "VM {vmid} ({name}) on {host} {}, so it may have etcd data, and cannot be read: {reason}",
            sign.describe(cluster)
        ),
        hint: format!(
            "bring VM {vmid} on {host} up and check that its guest agent reports its address; then run the same command to \
             resume\n{}",
            sign.hint(vmid, cluster, mark)
        ),
    }
}

/// Reads a VM with a sign of this cluster that is not a control plane of the inventory.
async fn ask_member(
    step: &BootstrapEtcd,
    member: &PossibleMember,
    context: &StepContext,
) -> Result<Option<Objection>, StepError> {
    let own = node_of(step, member, Contact::AskAgent).own;
    let objection = |reason: &str| {
        let mut objection = match member.unmarked {
            Some(sign) => unmarked(step, member, sign, reason),
            None => silent(&member.name, &own, reason),
        };
        if member.is_role_unknown {
            objection.hint.push_str(
                "\nif an earlier release of talmox created it as a worker, and it was never a control plane, add the word \
                 role=worker to the line of its notes that starts with talmox/1",
            );
        }
        Ok(Some(objection))
    };
    if !member.is_running {
        return objection("its VM does not run");
    }
    let reported = member.addresses.iter().map(|address| Contact::At(*address));
    let mut reasons = vec![];
    for contact in reported.chain([Contact::AskAgent]) {
        match ask(&node_of(step, member, contact), context).await? {
            Ok(()) => return Ok(None),
            Err(reason) => reasons.push(reason.to_string()),
        }
    }
    objection(&reasons.join("; "))
}

fn node_of(step: &BootstrapEtcd, member: &PossibleMember, contact: Contact) -> TalosNode {
    let identity = Identity { node: member.name.clone(), ..step.node.own.identity.clone() };
    TalosNode {
        name: member.name.clone(),
        own: OwnVm { vm: member.vm.clone(), identity },
        contact,
        expected: member.expected.clone(),
        is_control_plane: !member.may_be_silent,
    }
}

/// Reads witnesses that do not have to answer. Returns an error only if one has etcd data. An etcd that is starting is not an
/// error, because it may wait for this bootstrap.
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

/// Returns an error if a node has etcd data. The inner error is the reason why the state of etcd cannot be read.
async fn ask(node: &TalosNode, context: &StepContext) -> Result<Answer<()>, StepError> {
    match read(node, context).await? {
        Ok(data) => has_none(&node.name, &data).map(Ok),
        Err(reason) => Ok(Err(reason)),
    }
}

/// The state of etcd on a node. The inner error is the reason why the state cannot be read, for example that another
/// machine answers at the address of the node.
async fn read(node: &TalosNode, context: &StepContext) -> Result<Answer<EtcdData>, StepError> {
    let address = match locate(node, context).await {
        Look::Done(address) => address,
        Look::NotYet(reason) => return Ok(Err(Unobserved::Unreachable(reason))),
    };
    let client = context.cluster()?.client(address)?;
    let verdict = context.cluster()?.probe(address).await?;
    let identity = match &verdict {
        Verdict::Maintenance(found) => machine::compare(&found.machine, &node.expected),
        Verdict::OwnNode => machine::ask(&client, node).await,
        other @ (Verdict::Nothing(_) | Verdict::Mute(_)) => {
            return Ok(Err(Unobserved::Unreachable(other.to_string())));
        }
        other => return Ok(Err(Unobserved::Unreadable(other.to_string()))),
    };
    match identity {
        IdentityMatch::Same => {}
        IdentityMatch::NotYet(reason) => return Ok(Err(Unobserved::Unreadable(reason))),
        IdentityMatch::Other(why) => {
            let reason = format!("another machine answers at {address}: {why}");
            return Ok(Err(Unobserved::Unreadable(reason)));
        }
    }
    // A machine without a config has no etcd.
    if matches!(verdict, Verdict::Maintenance(_)) {
        return Ok(Ok(EtcdData::Nothing("it has no config".to_owned())));
    }
    Ok(EtcdData::read(&client).await.map_err(|error| match error {
        TalosError::Unreachable { .. } | TalosError::Lost { .. } | TalosError::Late { .. } => {
            Unobserved::Unreachable(error.reason())
        }
        _ => Unobserved::Unreadable(error.reason()),
    }))
}

/// Returns an error if the node has etcd data.
fn has_none(name: &str, data: &EtcdData) -> Result<(), StepError> {
    let exists = |what: &str, hint: &str| {
        Err(StepError::failed(
            StepCode::BootstrapUnsafe,
            format!("etcd is not bootstrapped: {name} {what}"),
        )
        .hint(hint))
    };
    match data {
        EtcdData::Nothing(_) => Ok(()),
        EtcdData::AtRest | EtcdData::Starting(_) => exists(
            "has etcd data, and etcd does not run there",
            "this cluster has been bootstrapped before, and a second bootstrap would create another one: check that enough of \
             its other control planes are up, or restore a backup",
        ),
        EtcdData::Member => exists(
            "is already a member of it",
            "this cluster has been bootstrapped before: run the same command again to join a new control plane to it",
        ),
    }
}

/// Returns an error if a Kubernetes API of this cluster answers, because such an API has an etcd.
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

/// Reads the machines at the addresses of the cluster, and at the addresses in older client files.
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
                if !matches!(access.probe(address).await, Ok(Verdict::OwnNode)) {
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
