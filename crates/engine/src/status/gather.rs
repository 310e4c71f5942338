//! Gathering the status, with all requests at the same time.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use talmox_clock::Clock;
use talmox_plan::desired::Contact;
use talmox_plan::observed::CheckSeen;
use talmox_plan::plan::Change;
use talmox_pve::PveError;
use talmox_pve::api::cluster::{self, Guest};
use talmox_pve::api::qemu::{self, Vm};
use talmox_talos_api::client::ResourceKind;
use talmox_talos_api::etcd_state::ETCD;
use talmox_talos_api::probe::certificate_end;
use talmox_talos_api::{Client, Look, TalosError, Verdict, node_address};
use talmox_talos_config::time::UnixTime;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::requests::{StatusRequests, StatusSources, by_deadline};
use super::{
    EtcdStatus, Known, KubernetesStatus, NodeRole, NodeStatus, Part, Status, Subject, TalosStatus,
    Unreachable, VmState, VmStatus, authorities, drift_of_node, other_drift,
};
use crate::kube::NodeFacts;
use crate::locate::locate;

/// Result of observing the cluster for a plan.
#[derive(Clone, Debug, Default)]
pub struct ObservedCluster {
    /// The nodes, with their VMs.
    pub subjects: Vec<Subject>,
    /// Nodes that are known to have no VM.
    pub absent: BTreeSet<String>,
    /// The changes that a plan would contain. The status shows them as drift.
    pub changes: Vec<Change>,
    pub health: Vec<CheckSeen>,
    /// Problems of the cluster as a whole.
    pub errors: Vec<String>,
}

/// Requests the status of all parts of the cluster, while `observed` observes the cluster for a plan. Requests to nodes with a
/// known address are sent at once, because they do not depend on the plan. If the cluster could not be observed, the reason is
/// returned as well.
pub async fn gather(
    cluster: &str,
    subjects: &[Subject],
    sources: &StatusSources,
    observed: impl Future<Output = Result<ObservedCluster, String>>,
) -> (Status, Option<String>) {
    let requests = Arc::new(StatusRequests::new(sources));
    let has_address = |subject: &Subject| matches!(subject.contact, Contact::At(_));
    // None of the three futures waits for another, so an API that does not answer does not delay the others.
    let answers = Box::pin(async {
        tokio::join!(
            proxmox(subjects, &requests, observed, |subject| !has_address(subject)),
            kubernetes(&requests),
            node_reports(subjects, &requests, has_address),
        )
    });
    let (proxmox, (kubernetes, registered), addressed) = answers.await;
    let ProxmoxReport { guests, found, problem, vms, nodes: located } = proxmox;
    let ObservedCluster { subjects, changes, health, errors, .. } = &found;
    let reports = in_order(addressed.into_iter().chain(located).collect());
    let parts = subjects.iter().zip(vms).zip(reports);
    let nodes: Vec<NodeStatus> = parts
        .map(|((subject, vm), report)| NodeStatus {
            name: subject.name.clone(),
            role: subject.role,
            vmid: subject.own.as_ref().map(|own| own.vm.vmid.get()),
            address: report.address,
            vm,
            talos: report.talos,
            kubernetes: subject.is_talos.then(|| registered_as(&registered, subject)),
            etcd: report.etcd,
            drift: drift_of_node(changes, &subject.name),
        })
        .collect();
    let is_known = |name: &str| subjects.iter().any(|subject| subject.name == name);
    let status = Status {
        cluster: cluster.to_owned(),
        unreachable: unreachable(&guests, &kubernetes, &nodes),
        kubernetes,
        nodes,
        // The clients were made from this bundle, so its authorities can be read.
        authorities: authorities(&sources.cluster.bundle).unwrap_or_default(),
        drift: other_drift(changes, is_known),
        unknown_nodes: registered
            .get()
            .map(|nodes| nodes.iter().map(|node| node.name.clone()))
            .into_iter()
            .flatten()
            .filter(|name| !is_known(name))
            .collect(),
        health: health.clone(),
        errors: errors.clone(),
    };
    (status, problem)
}

/// Reports of the nodes for which `is_meant` returns true, with the index of each node. All requests are sent at the
/// same time.
async fn node_reports(
    subjects: &[Subject],
    requests: &Arc<StatusRequests>,
    is_meant: impl Fn(&Subject) -> bool,
) -> Vec<(usize, NodeReport)> {
    let mut asked = JoinSet::new();
    let meant = subjects.iter().enumerate().filter(|(_, subject)| is_meant(subject));
    for (index, subject) in meant.map(|(index, subject)| (index, subject.clone())) {
        let requests = Arc::clone(requests);
        asked.spawn(async move { (index, Box::pin(node_report(&subject, &requests)).await) });
    }
    asked.join_all().await
}

pub(super) fn in_order<T>(mut answers: Vec<(usize, T)>) -> Vec<T> {
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// The APIs that did not answer.
fn unreachable(
    guests: &Known<Vec<Guest>>,
    kubernetes: &Known<String>,
    nodes: &[NodeStatus],
) -> Vec<Unreachable> {
    let mut all = vec![];
    if let Known::Unknown(why) = guests {
        all.push(Unreachable { part: Part::Proxmox, nodes: vec![], reason: why.clone() });
    }
    let has_talos = nodes.iter().any(|node| node.talos.is_some());
    let silent = nodes.iter().filter_map(|node| match &node.talos {
        Some(Known::Unknown(why)) => Some((node.name.clone(), why.clone())),
        _ => None,
    });
    let (nodes, reasons): (Vec<String>, Vec<String>) = silent.unzip();
    if let Some(reason) = reasons.into_iter().next() {
        all.push(Unreachable { part: Part::Talos, nodes, reason });
    }
    if let Known::Unknown(why) = kubernetes
        && has_talos
    {
        all.push(Unreachable { part: Part::Kubernetes, nodes: vec![], reason: why.clone() });
    }
    all
}

/// Answers of Proxmox, and of the nodes whose addresses are not in the inventory and come from Proxmox.
struct ProxmoxReport {
    guests: Known<Vec<Guest>>,
    found: ObservedCluster,
    /// Reason why the cluster could not be observed. None if it was observed.
    problem: Option<String>,
    vms: Vec<VmState>,
    nodes: Vec<(usize, NodeReport)>,
}

async fn proxmox(
    subjects: &[Subject],
    requests: &Arc<StatusRequests>,
    observed: impl Future<Output = Result<ObservedCluster, String>>,
    is_unlocated: impl Fn(&Subject) -> bool,
) -> ProxmoxReport {
    let answered = Notify::new();
    let guests = by_deadline(requests.deadline, async {
        let found = requests.pve.send(&cluster::resources()).await;
        if is_answer(&found) {
            answered.notify_one();
        }
        Ok(found.map_err(|error| chain(&error))?.guests)
    });
    let observed = async {
        let left = requests.deadline.left();
        let observed = Clock::real().timeout(left, Box::pin(observed)).await;
        let observed =
            observed.unwrap_or_else(|_| Err("the cluster was not observed in time".to_owned()));
        if observed.is_ok() {
            answered.notify_one();
        }
        observed
    };
    let both = async { tokio::join!(guests, observed) };
    let (guests, observed) = tokio::select! {
        both = both => both,
        why = silence(requests, &answered) => {
            let problem = format!("the state of Proxmox was not observed: {why}");
            (Known::Unknown(why), Err(problem))
        }
    };
    let (found, problem) = match observed {
        Ok(found) => (found, None),
        Err(why) => (
            ObservedCluster { subjects: subjects.to_vec(), ..ObservedCluster::default() },
            Some(why),
        ),
    };
    let none = problem.as_deref().unwrap_or("there is no such VM");
    let mut asked = JoinSet::new();
    for (index, subject) in found.subjects.iter().enumerate() {
        let (guest, requests) = (guest_of(&guests, subject, none), Arc::clone(requests));
        let is_absent = guests.get().is_some() && found.absent.contains(&subject.name);
        asked.spawn(async move {
            let state = match guest {
                Ok(guest) => vm(&guest, &requests).await,
                Err(why) if is_absent => VmState::Absent(why),
                Err(why) => VmState::Unknown(why),
            };
            (index, state)
        });
    }
    let (vms, nodes) =
        tokio::join!(asked.join_all(), node_reports(&found.subjects, requests, is_unlocated));
    ProxmoxReport { guests, found, problem, vms: in_order(vms), nodes }
}

/// Returns the reason if Proxmox does not answer any request in time. Never returns if Proxmox answers. Its further answers
/// may take until the deadline, because Proxmox may have to read a thousand VMs.
async fn silence(requests: &StatusRequests, answered: &Notify) -> String {
    let clock = Clock::real();
    let limit = requests.first_answer_limit();
    let deadline = clock.deadline(limit);
    let version = cluster::version();
    let first_answer = async {
        tokio::select! {
            () = answered.notified() => None,
            version = requests.pve.send(&version) => {
                version.err().filter(|error| !matches!(error, PveError::Rejected(_)))
            }
        }
    };
    let why = match clock.timeout(deadline.left(), Box::pin(first_answer)).await {
        Ok(None) => return std::future::pending().await,
        Ok(Some(error)) => chain(&error),
        Err(_) => format!("no answer within {:.0} s", limit.as_secs_f64()),
    };
    // Another request may still be answered.
    if clock.timeout(deadline.left(), answered.notified()).await.is_ok() {
        return std::future::pending().await;
    }
    why
}

fn is_answer<T>(result: &Result<T, PveError>) -> bool {
    matches!(result, Ok(_) | Err(PveError::Rejected(_)))
}

pub(super) async fn kubernetes(
    requests: &StatusRequests,
) -> (Known<String>, Known<Vec<NodeFacts>>) {
    let client = match requests.cluster.kube() {
        Ok(client) => client,
        Err(error) => {
            return (Known::Unknown(error.to_string()), Known::Unknown(error.to_string()));
        }
    };
    let version = by_deadline(requests.node_deadline(), async {
        client.version().await.map_err(|error| error.reason())
    });
    let nodes = by_deadline(requests.node_deadline(), async {
        client.nodes().await.map_err(|error| error.reason())
    });
    tokio::join!(version, nodes)
}

/// The VM of a node. If the VM does not exist, the error describes the foreign VM that has its vmid or name. If there is no
/// foreign VM either, the error is `none`.
fn guest_of(guests: &Known<Vec<Guest>>, subject: &Subject, none: &str) -> Result<Vm, String> {
    let guests = match guests {
        Known::Unknown(why) => return Err(why.clone()),
        Known::Is(guests) => guests,
    };
    let vmid = subject.own.as_ref().map(|own| own.vm.vmid);
    let found = guests.iter().find(|guest| Some(guest.vmid) == vmid && guest.is_vm);
    if let Some(guest) = found {
        return Ok(Vm::new(&guest.node, guest.vmid));
    }
    Err(subject.foreign_vm.clone().unwrap_or_else(|| none.to_owned()))
}

pub(super) fn registered_as(
    nodes: &Known<Vec<NodeFacts>>,
    subject: &Subject,
) -> Known<KubernetesStatus> {
    match nodes {
        Known::Unknown(why) => Known::Unknown(why.clone()),
        Known::Is(nodes) => match nodes.iter().find(|node| node.name == subject.name) {
            None => Known::Unknown("it is not registered".to_owned()),
            Some(node) => Known::Is(KubernetesStatus {
                ready: node.is_ready,
                reason: (!node.is_ready).then(|| node.reason.clone()),
                schedulable: node.is_schedulable,
                version: node.kubelet_version.clone(),
            }),
        },
    }
}

/// Answers of a node.
struct NodeReport {
    address: Known<IpAddr>,
    talos: Option<Known<TalosStatus>>,
    etcd: Option<Known<EtcdStatus>>,
}

async fn node_report(subject: &Subject, requests: &StatusRequests) -> NodeReport {
    let address = by_deadline(requests.deadline, async {
        let look = match (subject.contact, &subject.own) {
            (Contact::At(address), _) => Look::Done(address),
            (contact, Some(own)) => locate(contact, &own.vm, &requests.pve).await,
            (_, None) => Look::NotYet(
                "the node has no VM whose guest agent could report its address".to_owned(),
            ),
        };
        match look {
            Look::Done(address) => Ok(address),
            Look::NotYet(reason) => Err(reason),
        }
    })
    .await;
    let (talos, etcd) = match (subject.is_talos, &address) {
        (false, _) => (None, None),
        (_, Known::Unknown(why)) => {
            (Some(Known::Unknown(why.clone())), Some(Known::Unknown(why.clone())))
        }
        (_, Known::Is(address)) => {
            let talos = by_deadline(requests.node_deadline(), talos(*address, requests));
            let etcd = by_deadline(requests.node_deadline(), etcd(*address, requests));
            let (talos, etcd) = tokio::join!(talos, etcd);
            (Some(talos), Some(etcd))
        }
    };
    let etcd = etcd.filter(|_| subject.role == NodeRole::ControlPlane);
    NodeReport { address, talos, etcd }
}

async fn vm(vm: &Vm, requests: &StatusRequests) -> VmState {
    let seen = by_deadline(requests.deadline, async {
        let status = requests.pve.send(&qemu::current(vm)).await.map_err(|error| chain(&error))?;
        Ok(VmStatus {
            host: vm.node.to_string(),
            running: status.running,
            cpu: status.cpu,
            memory: status.memory,
            max_memory: status.max_memory,
            uptime: status.uptime,
        })
    });
    match seen.await {
        Known::Is(status) => VmState::Is(status),
        Known::Unknown(why) => VmState::Unknown(why),
    }
}

async fn talos(address: IpAddr, requests: &StatusRequests) -> Result<TalosStatus, String> {
    let access = &requests.cluster;
    let verdict = access.probe(address).await.map_err(|error| error.to_string())?;
    let (client, in_maintenance) = match verdict {
        Verdict::OwnNode => (access.client(address).map_err(|error| error.to_string())?, false),
        Verdict::Maintenance(found) => (found.client, true),
        other => return Err(format!("{other}; {}", other.advice())),
    };
    let version = client.version().await.ok().map(|version| version.tag);
    if in_maintenance {
        let stage = "maintenance".to_owned();
        return Ok(TalosStatus { stage, version, troubles: vec![], certificate_end: None });
    }
    let node = node_address(address.to_string());
    let end = certificate_end(&node, &access.credentials, &access.settings);
    let (stage, troubles, end) = tokio::join!(stage(&client), troubles(&client), end);
    Ok(TalosStatus {
        stage: stage.map_err(|error| error.reason())?,
        version,
        troubles: troubles.map_err(|error| error.reason())?,
        certificate_end: end.ok().flatten().map(UnixTime::seconds),
    })
}

async fn stage(client: &Client) -> Result<String, TalosError> {
    let status = client.get(ResourceKind::MACHINE_STATUS, "machine").await?;
    Ok(status.and_then(|status| status.text("stage")).unwrap_or_else(|| "unknown".to_owned()))
}

async fn troubles(client: &Client) -> Result<Vec<String>, TalosError> {
    let services = client.services().await?;
    let is_over = |state: &str| matches!(state, "Finished" | "Skipped");
    let unhealthy =
        services.iter().filter(|service| !service.is_fine() && !is_over(&service.state));
    Ok(unhealthy.map(talmox_talos_api::client::Service::describe).collect())
}

async fn etcd(address: IpAddr, requests: &StatusRequests) -> Result<EtcdStatus, String> {
    let client = requests.cluster.client(address).map_err(|error| error.to_string())?;
    // An etcd that is down never answers, but the state of its service shows why.
    let services = client.services().await.map_err(|error| error.reason())?;
    let service = services.iter().find(|service| service.id == ETCD);
    if let Some(down) = service.filter(|service| !service.is_running()) {
        return Err(down.describe());
    }
    if service.is_none() {
        return Err("Talos has not started etcd yet".to_owned());
    }
    let status = client.etcd_status().await.map_err(|error| error.reason())?;
    Ok(EtcdStatus {
        leader: status.leader == status.member_id,
        learner: status.is_learner,
        database: u64::try_from(status.db_size).unwrap_or_default(),
        errors: status.errors,
    })
}

/// An error with its causes, in one line.
fn chain(error: &PveError) -> String {
    let mut texts = vec![error.to_string()];
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        texts.push(error.to_string());
        cause = error.source();
    }
    texts.join(": ")
}
