//! Gathering of the status: all requests at the same time.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use talmox_clock::{Clock, Deadline};
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
use tokio::task::JoinSet;

use super::{
    EtcdStatus, Known, KubernetesStatus, NodeRole, NodeStatus, Part, Status, Subject, TalosStatus,
    Unreachable, VmState, VmStatus, authorities, drift,
};
use crate::access::ClusterAccess;
use crate::kube::NodeFacts;
use crate::locate::locate;

/// The clients of all APIs, and the timeout.
#[derive(Clone, Debug)]
pub struct StatusSources {
    pub pve: talmox_pve::Client,
    pub cluster: ClusterAccess,
    /// In real time, for all of it together: bytes cross a real network.
    pub limit: Duration,
}

/// The same while it goes on.
pub(super) struct Asking {
    pub(super) pve: talmox_pve::Client,
    pub(super) cluster: ClusterAccess,
    /// When everybody must have answered.
    pub(super) end: Deadline,
}

impl Asking {
    /// When a node or Kubernetes that is asked now must have answered: sooner than Proxmox, which may have a thousand VMs
    /// to read.
    fn nodes_end(&self) -> Deadline {
        Clock::real().deadline(NODES.min(self.end.left()))
    }
}

/// How long nodes and Kubernetes may take, in real time. A status must come at once; a node that is up answers in a
/// fraction of this.
const NODES: Duration = Duration::from_secs(4);

/// What is known once the cluster was observed for a plan.
#[derive(Clone, Debug, Default)]
pub struct ObservedCluster {
    /// The same nodes, with their VMs.
    pub subjects: Vec<Subject>,
    /// Nodes that are known to have no VM.
    pub absent: BTreeSet<String>,
    /// Those of a plan, which become the drift.
    pub changes: Vec<Change>,
    pub health: Vec<CheckSeen>,
    /// What is wrong with the cluster as a whole.
    pub errors: Vec<String>,
}

/// Looks at everything, while `world` does the same for a plan. What needs no plan does not wait for it: whoever has a
/// known address is asked at once. Says as well why the world is not known, if it is not.
pub async fn gather(
    cluster: &str,
    subjects: &[Subject],
    sources: &StatusSources,
    world: impl Future<Output = Result<ObservedCluster, String>>,
) -> (Status, Option<String>) {
    let asking = Arc::new(Asking {
        pve: sources.pve.clone(),
        cluster: sources.cluster.clone(),
        end: Clock::real().deadline(sources.limit),
    });
    let is_at_hand = |subject: &Subject| matches!(subject.contact, Contact::At(_));
    // None of the three waits for another: one that is silent takes nobody else's time.
    let looks = Box::pin(async {
        tokio::join!(
            proxmox(subjects, &asking, world, |subject| !is_at_hand(subject)),
            kubernetes(&asking),
            insides(subjects, &asking, is_at_hand),
        )
    });
    let (Proxmox { guests, found, trouble, vms, insides: told }, (kubernetes, registered), at_hand) =
        looks.await;
    let ObservedCluster { subjects, changes, health, errors, .. } = &found;
    let insides = in_order(at_hand.into_iter().chain(told).collect());
    let parts = subjects.iter().zip(vms).zip(insides);
    let nodes: Vec<NodeStatus> = parts
        .map(|((subject, vm), inside)| NodeStatus {
            name: subject.name.clone(),
            role: subject.role,
            vmid: subject.own.as_ref().map(|own| own.vm.vmid.get()),
            address: inside.address,
            vm,
            talos: inside.talos,
            kubernetes: subject.is_talos.then(|| registered_as(&registered, subject)),
            etcd: inside.etcd,
            drift: drift(changes, |node| node == Some(&subject.name)),
        })
        .collect();
    let is_known = |name: &str| subjects.iter().any(|subject| subject.name == name);
    let status = Status {
        cluster: cluster.to_owned(),
        unreachable: unreachable(&guests, &kubernetes, &nodes),
        kubernetes,
        nodes,
        // A bundle that can be used at all has authorities that can be read.
        authorities: authorities(&sources.cluster.bundle).unwrap_or_default(),
        drift: drift(changes, |node| node.is_none_or(|name| !is_known(name))),
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
    (status, trouble)
}

/// What these nodes say, asked at the same time; each with its place among all.
async fn insides(
    subjects: &[Subject],
    asking: &Arc<Asking>,
    is_meant: impl Fn(&Subject) -> bool,
) -> Vec<(usize, Inside)> {
    let mut asked = JoinSet::new();
    let meant = subjects.iter().enumerate().filter(|(_, subject)| is_meant(subject));
    for (at, subject) in meant.map(|(at, subject)| (at, subject.clone())) {
        let asking = Arc::clone(asking);
        asked.spawn(async move { (at, Box::pin(inside(&subject, &asking)).await) });
    }
    asked.join_all().await
}

pub(super) fn in_order<T>(mut answers: Vec<(usize, T)>) -> Vec<T> {
    answers.sort_by_key(|(at, _)| *at);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Who did not answer at all.
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

/// Waits for an answer, as long as there is time.
pub(super) async fn soon<T>(
    end: Deadline,
    answer: impl Future<Output = Result<T, String>>,
) -> Known<T> {
    match Clock::real().timeout(end.left(), Box::pin(answer)).await {
        Ok(Ok(found)) => Known::Is(found),
        Ok(Err(why)) => Known::Unknown(why),
        Err(_) => Known::Unknown("no answer in time".to_owned()),
    }
}

/// What Proxmox tells, and what cannot be asked before it has told.
struct Proxmox {
    guests: Known<Vec<Guest>>,
    found: ObservedCluster,
    /// Why the world is not known.
    trouble: Option<String>,
    vms: Vec<VmState>,
    insides: Vec<(usize, Inside)>,
}

async fn proxmox(
    subjects: &[Subject],
    asking: &Arc<Asking>,
    world: impl Future<Output = Result<ObservedCluster, String>>,
    is_hidden: impl Fn(&Subject) -> bool,
) -> Proxmox {
    let guests = soon(asking.end, async {
        let found = asking.pve.send(&cluster::resources()).await.map_err(|error| chain(&error))?;
        Ok(found.guests)
    });
    let clock = Clock::real();
    let world = clock.timeout(asking.end.left(), Box::pin(world));
    let (guests, world) = tokio::join!(guests, world);
    let (found, trouble) = match world {
        Ok(Ok(found)) => (found, None),
        Ok(Err(why)) => (
            ObservedCluster { subjects: subjects.to_vec(), ..ObservedCluster::default() },
            Some(why),
        ),
        Err(_) => {
            let why = "the world was not seen in time".to_owned();
            (
                ObservedCluster { subjects: subjects.to_vec(), ..ObservedCluster::default() },
                Some(why),
            )
        }
    };
    let none = trouble.as_deref().unwrap_or("there is no such VM");
    let mut asked = JoinSet::new();
    for (at, subject) in found.subjects.iter().enumerate() {
        let (guest, asking) = (guest_of(&guests, subject, none), Arc::clone(asking));
        let is_absent = guests.get().is_some() && found.absent.contains(&subject.name);
        asked.spawn(async move {
            let state = match guest {
                Ok(guest) => vm(&guest, &asking).await,
                Err(why) if is_absent => VmState::Absent(why),
                Err(why) => VmState::Unknown(why),
            };
            (at, state)
        });
    }
    let (vms, insides) =
        tokio::join!(asked.join_all(), insides(&found.subjects, asking, is_hidden));
    Proxmox { guests, found, trouble, vms: in_order(vms), insides }
}

pub(super) async fn kubernetes(sources: &Asking) -> (Known<String>, Known<Vec<NodeFacts>>) {
    let client = match sources.cluster.kube() {
        Ok(client) => client,
        Err(error) => {
            return (Known::Unknown(error.to_string()), Known::Unknown(error.to_string()));
        }
    };
    let version =
        soon(sources.nodes_end(), async { client.version().await.map_err(|error| error.reason()) });
    let nodes =
        soon(sources.nodes_end(), async { client.nodes().await.map_err(|error| error.reason()) });
    tokio::join!(version, nodes)
}

/// The VM of a node; `none` says why there is none, if nothing else does.
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
    Err(subject.stranger.clone().unwrap_or_else(|| none.to_owned()))
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

/// What a node itself says.
struct Inside {
    address: Known<IpAddr>,
    talos: Option<Known<TalosStatus>>,
    etcd: Option<Known<EtcdStatus>>,
}

async fn inside(subject: &Subject, sources: &Asking) -> Inside {
    let address = soon(sources.end, async {
        let look = match (subject.contact, &subject.own) {
            (Contact::At(address), _) => Look::Done(address),
            (contact, Some(own)) => locate(contact, &own.vm, &sources.pve).await,
            (_, None) => Look::NotYet("its guest agent cannot be asked".to_owned()),
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
            let talos = soon(sources.nodes_end(), talos(*address, sources));
            let etcd = soon(sources.nodes_end(), etcd(*address, sources));
            let (talos, etcd) = tokio::join!(talos, etcd);
            (Some(talos), Some(etcd))
        }
    };
    let etcd = etcd.filter(|_| subject.role == NodeRole::ControlPlane);
    Inside { address, talos, etcd }
}

async fn vm(vm: &Vm, sources: &Asking) -> VmState {
    let seen = soon(sources.end, async {
        let status = sources.pve.send(&qemu::current(vm)).await.map_err(|error| chain(&error))?;
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

async fn talos(address: IpAddr, sources: &Asking) -> Result<TalosStatus, String> {
    let access = &sources.cluster;
    let verdict = access.probe(address).await.map_err(|error| error.to_string())?;
    let (client, in_maintenance) = match verdict {
        Verdict::Ours => (access.client(address).map_err(|error| error.to_string())?, false),
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
    let ill = services.iter().filter(|service| !service.is_fine() && !is_over(&service.state));
    Ok(ill.map(talmox_talos_api::client::Service::describe).collect())
}

async fn etcd(address: IpAddr, sources: &Asking) -> Result<EtcdStatus, String> {
    let client = sources.cluster.client(address).map_err(|error| error.to_string())?;
    // An etcd that is down never answers: its service says why.
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

/// An error and what it came from, in one line.
fn chain(error: &PveError) -> String {
    let mut texts = vec![error.to_string()];
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        texts.push(error.to_string());
        cause = error.source();
    }
    texts.join(": ")
}
