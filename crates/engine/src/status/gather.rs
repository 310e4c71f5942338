//! Asking everybody at once.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_pve::PveError;
use talmox_pve::api::cluster::{self, Guest};
use talmox_pve::api::qemu::{self, Vm};
use talmox_talos_api::client::ResourceKind;
use talmox_talos_api::probe::certificate_end;
use talmox_talos_api::{Address, Client, Look, TalosError, Verdict};
use talmox_talos_config::time::UnixTime;
use tokio::task::JoinSet;

use super::{
    EtcdStatus, KubernetesStatus, NodeStatus, Role, Seen, Status, Subject, TalosStatus, VmStatus,
    authorities, drift,
};
use crate::access::ClusterAccess;
use crate::kube::NodeFacts;
use crate::locate::locate;
use crate::plan::{Change, Contact};

/// Whom to ask, and how long each may take.
#[derive(Clone, Debug)]
pub struct Sources {
    pub pve: talmox_pve::Client,
    pub cluster: ClusterAccess,
    /// In real time: bytes cross a real network.
    pub limit: Duration,
}

/// Looks at everything. `changes` are those of a plan, and become the drift.
pub async fn gather(
    cluster: &str,
    subjects: &[Subject],
    sources: &Sources,
    changes: &[Change],
) -> Status {
    let sources = Arc::new(sources.clone());
    let (guests, (kubernetes, registered)) = tokio::join!(guests(&sources), kubernetes(&sources));
    let mut asked = JoinSet::new();
    for (at, subject) in subjects.iter().cloned().enumerate() {
        let guest = guest_of(&guests, &subject);
        let registered = registered_as(&registered, &subject);
        let sources = Arc::clone(&sources);
        let drift = drift(changes, Some(&subject.name));
        asked.spawn(async move {
            (at, Box::pin(one(&subject, guest, registered, &sources, drift)).await)
        });
    }
    let mut nodes = asked.join_all().await;
    nodes.sort_by_key(|(at, _)| *at);
    Status {
        cluster: cluster.to_owned(),
        kubernetes,
        nodes: nodes.into_iter().map(|(_, node)| node).collect(),
        // A bundle that can be used at all has authorities that can be read.
        authorities: authorities(&sources.cluster.bundle).unwrap_or_default(),
        drift: drift(changes, None),
    }
}

/// Waits for an answer, a short while.
async fn soon<T>(limit: Duration, answer: impl Future<Output = Result<T, String>>) -> Seen<T> {
    match Clock::real().timeout(limit, Box::pin(answer)).await {
        Ok(Ok(found)) => Seen::Is(found),
        Ok(Err(why)) => Seen::Unknown(why),
        Err(_) => Seen::Unknown("no answer in time".to_owned()),
    }
}

async fn guests(sources: &Sources) -> Seen<Vec<Guest>> {
    soon(sources.limit, async {
        let found = sources.pve.send(&cluster::resources()).await.map_err(|error| chain(&error))?;
        Ok(found.guests)
    })
    .await
}

async fn kubernetes(sources: &Sources) -> (Seen<String>, Seen<Vec<NodeFacts>>) {
    let client = match sources.cluster.kube() {
        Ok(client) => client,
        Err(error) => {
            return (Seen::Unknown(error.to_string()), Seen::Unknown(error.to_string()));
        }
    };
    let version =
        soon(sources.limit, async { client.version().await.map_err(|error| error.reason()) });
    let nodes = soon(sources.limit, async { client.nodes().await.map_err(|error| error.reason()) });
    tokio::join!(version, nodes)
}

fn guest_of(guests: &Seen<Vec<Guest>>, subject: &Subject) -> Seen<Vm> {
    let guests = match guests {
        Seen::Unknown(why) => return Seen::Unknown(why.clone()),
        Seen::Is(guests) => guests,
    };
    let vmid = subject.own.as_ref().map(|own| own.vm.vmid);
    let found = guests.iter().find(|guest| Some(guest.vmid) == vmid && guest.is_vm);
    if let Some(guest) = found {
        return Seen::Is(Vm::new(&guest.node, guest.vmid));
    }
    let none = || "there is no such VM".to_owned();
    Seen::Unknown(subject.stranger.clone().unwrap_or_else(none))
}

fn registered_as(nodes: &Seen<Vec<NodeFacts>>, subject: &Subject) -> Seen<KubernetesStatus> {
    match nodes {
        Seen::Unknown(why) => Seen::Unknown(why.clone()),
        Seen::Is(nodes) => match nodes.iter().find(|node| node.name == subject.name) {
            None => Seen::Unknown("it is not registered".to_owned()),
            Some(node) => Seen::Is(KubernetesStatus {
                ready: node.is_ready,
                reason: (!node.is_ready).then(|| node.reason.clone()),
                schedulable: node.is_schedulable,
                version: node.kubelet_version.clone(),
            }),
        },
    }
}

async fn one(
    subject: &Subject,
    guest: Seen<Vm>,
    registered: Seen<KubernetesStatus>,
    sources: &Sources,
    drift: Vec<String>,
) -> NodeStatus {
    let vm = vm(guest, sources);
    let address = soon(sources.limit, async {
        let look = match (subject.contact, &subject.own) {
            (Contact::At(address), _) => Look::Done(address),
            (contact, Some(own)) => locate(contact, &own.vm, &sources.pve).await,
            (_, None) => Look::NotYet("its guest agent cannot be asked".to_owned()),
        };
        match look {
            Look::Done(address) => Ok(address),
            Look::NotYet(reason) => Err(reason),
        }
    });
    let (vm, address) = tokio::join!(vm, address);
    let (talos, etcd) = match (subject.role, &address) {
        (Role::Ubuntu, _) => (None, None),
        (_, Seen::Unknown(why)) => {
            (Some(Seen::Unknown(why.clone())), Some(Seen::Unknown(why.clone())))
        }
        (_, Seen::Is(address)) => {
            let talos = soon(sources.limit, talos(*address, sources));
            let etcd = soon(sources.limit, etcd(*address, sources));
            let (talos, etcd) = tokio::join!(talos, etcd);
            (Some(talos), Some(etcd))
        }
    };
    NodeStatus {
        name: subject.name.clone(),
        role: subject.role,
        vmid: subject.own.as_ref().map(|own| own.vm.vmid.get()),
        address,
        vm,
        talos,
        kubernetes: (subject.role != Role::Ubuntu).then_some(registered),
        etcd: etcd.filter(|_| subject.role == Role::ControlPlane),
        drift,
    }
}

async fn vm(guest: Seen<Vm>, sources: &Sources) -> Seen<VmStatus> {
    let vm = match guest {
        Seen::Is(vm) => vm,
        Seen::Unknown(why) => return Seen::Unknown(why),
    };
    soon(sources.limit, async {
        let status = sources.pve.send(&qemu::current(&vm)).await.map_err(|error| chain(&error))?;
        Ok(VmStatus {
            host: vm.node.to_string(),
            running: status.running,
            cpu: status.cpu,
            memory: status.memory,
            max_memory: status.max_memory,
            uptime: status.uptime,
        })
    })
    .await
}

async fn talos(address: IpAddr, sources: &Sources) -> Result<TalosStatus, String> {
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
    let node = Address::new(address.to_string());
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

async fn etcd(address: IpAddr, sources: &Sources) -> Result<EtcdStatus, String> {
    let client = sources.cluster.client(address).map_err(|error| error.to_string())?;
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
