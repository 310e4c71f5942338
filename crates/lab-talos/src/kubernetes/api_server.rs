//! The API server of one control plane: its certificate, and where it listens.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_lab_kube::{ApiServer, KubeServer, KubeStore, KubeTls, Memory, serve_at};
use talmox_talos_config::pki::{AltName, Authority};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::time::UnixTime;
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::server_host::ServerNode;
use crate::config::Facts;
use crate::real::RealCluster;
use crate::simulation::Simulation;
use crate::talos_state::Membership;
use crate::wire::Incoming;

pub(crate) const PORT: u16 = 6443;

/// An API server that runs, and is known to the cluster. All of that ends with it.
pub(super) struct Running {
    simulation: Arc<Simulation>,
    cluster: u64,
    vmid: u32,
    _listening: Vec<Listening>,
    pub(super) behind: Behind,
}

/// What answers on the addresses of a control plane.
#[derive(Clone, Debug)]
pub(crate) enum Behind {
    Simulated(ApiServer),
    /// While etcd does not answer, nobody is let through.
    Real(Arc<RealCluster>, watch::Receiver<Memory>),
}

/// An address that is answered on, until this is dropped.
#[derive(Debug)]
pub(crate) enum Listening {
    Simulated { _server: KubeServer },
    Real { _relay: JoinSet<()> },
}

impl Behind {
    pub(crate) fn listen(&self, incoming: Incoming) -> Listening {
        match self {
            Self::Simulated(server) => {
                Listening::Simulated { _server: serve_at(incoming, server.clone()) }
            }
            Self::Real(cluster, memory) => {
                let mut relaying = JoinSet::new();
                relaying.spawn(relay(incoming, cluster.port, memory.clone()));
                Listening::Real { _relay: relaying }
            }
        }
    }
}

/// Passes connections on as they are. All of them end when etcd does not answer any more.
async fn relay(mut incoming: Incoming, port: u16, mut memory: watch::Receiver<Memory>) {
    let mut connections = JoinSet::new();
    loop {
        let outside = tokio::select! {
            outside = incoming.next() => outside,
            Ok(()) = memory.changed() => {
                if *memory.borrow() == Memory::Lost {
                    connections.abort_all();
                }
                continue;
            }
        };
        let Some(mut outside) = outside else { return };
        while connections.try_join_next().is_some() {}
        if *memory.borrow() == Memory::Lost {
            continue;
        }
        connections.spawn(async move {
            if let Ok(mut inside) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
                // However it ends, both sides notice.
                copy_bidirectional(&mut outside, &mut inside).await.ok();
            }
        });
    }
}

/// What an API server is started with; where this changes, it starts anew.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Start {
    pub(super) image: String,
    pub(super) version: u64,
    /// Those of the node itself. Where clients find them in the lab is nothing that an API server knows.
    pub(super) names: BTreeSet<String>,
    pub(super) addresses: Vec<IpAddr>,
}

/// Starts it on all addresses of the node.
pub(super) fn start(
    simulation: &Arc<Simulation>,
    (membership, vmid): (Membership, u32),
    start: &Start,
    facts: &Facts,
    store: &Arc<KubeStore>,
    memory: watch::Receiver<Memory>,
) -> Result<Running, String> {
    let mut doors = vec![];
    for address in &start.addresses {
        doors.push(simulation.wire.answer(*address, PORT, vmid).map_err(|e| e.to_string())?);
    }
    let names = reachable(simulation, facts, &start.names);
    let behind = if let Some(programs) = &simulation.settings.real {
        let cluster = simulation.real.of(programs, membership.cluster, facts, &names)?;
        Behind::Real(cluster, memory)
    } else {
        let tls = certificate(simulation, facts, &names)?;
        let version = start.image.rsplit_once(':').map_or("v0.0.0", |(_, tag)| tag);
        let version: Arc<str> = version.split('@').next().unwrap_or(version).into();
        store.admit_pods_by(&facts.admission_control, &version);
        let host = Arc::new(ServerNode { simulation: Arc::clone(simulation), vmid });
        let store = Arc::clone(store);
        Behind::Simulated(ApiServer { store, tls, version, memory, host: Some(host) })
    };
    let listening = doors.into_iter().map(|incoming| behind.listen(incoming)).collect();
    let first = start.addresses.first().copied();
    simulation.change(|talos| {
        if let (Some(cluster), Some(first)) = (talos.etcds.get_mut(&membership.cluster), first) {
            cluster.api_servers.insert(vmid, first);
        }
    });
    let (simulation, cluster) = (Arc::clone(simulation), membership.cluster);
    let running = Running { simulation, cluster, vmid, _listening: listening, behind };
    running.tell_cluster();
    Ok(running)
}

impl Running {
    /// The service `kubernetes` leads to all API servers that run.
    fn tell_cluster(&self) {
        let servers = self.simulation.look(|talos| {
            let cluster = talos.etcds.get(&self.cluster)?;
            let addresses = cluster.api_servers.values().map(ToString::to_string);
            Some((addresses.collect::<Vec<_>>(), Arc::clone(&cluster.store)))
        });
        if let Some((addresses, store)) = servers {
            let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
            store.set_api_addresses(&addresses);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.simulation.change(|talos| {
            if let Some(cluster) = talos.etcds.get_mut(&self.cluster) {
                cluster.api_servers.remove(&self.vmid);
            }
        });
        self.tell_cluster();
    }
}

/// All names that the certificate has to have: those of the cluster, and of this node.
pub(super) fn names(facts: &Facts, hostname: &str, addresses: &[IpAddr]) -> BTreeSet<String> {
    let domain = &facts.dns_domain;
    let mut names: BTreeSet<String> =
        ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "127.0.0.1"]
            .map(str::to_owned)
            .into();
    names.insert(format!("kubernetes.default.svc.{domain}"));
    names.insert(hostname.to_lowercase());
    names.extend(facts.endpoint.iter().map(|(host, _)| host.clone()));
    names.extend(facts.api_sans.iter().cloned());
    names.extend(facts.vips().map(|vip| vip.to_string()));
    names.extend(addresses.iter().map(ToString::to_string));
    names.extend(facts.service_subnets.iter().filter_map(|subnet| first_address(subnet)));
    names.retain(|name| !name.is_empty());
    names
}

/// With the loopback addresses by way of which clients of the lab come: for shared addresses too, which
/// nobody answers on yet.
fn reachable(simulation: &Simulation, facts: &Facts, names: &BTreeSet<String>) -> BTreeSet<String> {
    let endpoint = facts.endpoint.iter().filter_map(|(host, _)| host.parse().ok());
    for shared in facts.vips().chain(endpoint) {
        // What loopback cannot stand for, nobody comes by.
        simulation.wire.prepare(shared).ok();
    }
    let loopback = |name: &String| simulation.wire.loopback(name.parse().ok()?);
    let more = names.iter().filter_map(loopback).map(|address| address.to_string());
    names.iter().cloned().chain(more).collect()
}

/// The first address of a subnet, which the service `kubernetes` has.
fn first_address(subnet: &str) -> Option<String> {
    let (address, _) = subnet.split_once('/')?;
    let number = u32::from(address.parse::<Ipv4Addr>().ok()?);
    Some(Ipv4Addr::from(number.checked_add(1)?).to_string())
}

fn certificate(
    simulation: &Simulation,
    facts: &Facts,
    names: &BTreeSet<String>,
) -> Result<KubeTls, String> {
    let key = facts.kube_ca_key.as_deref().ok_or("cluster.ca.key is missing")?;
    let authority = Authority::from_pem(&facts.kube_ca, key).map_err(|e| e.to_string())?;
    let alt_names = names.iter().map(|name| match name.parse() {
        Ok(address) => AltName::Ip(address),
        Err(_) => AltName::Dns(name.clone()),
    });
    // A lab whose time runs ahead still shows certificates that clients outside believe.
    let now = simulation.clock().unix().min(Clock::real().unix());
    let now = UnixTime::from_seconds(i64::try_from(now).unwrap_or(i64::MAX));
    let backdated = now.minus(Duration::from_hours(1));
    KubeTls::issue(&authority, alt_names.collect(), backdated, &mut SystemRandomness::new())
        .map_err(|error| error.to_string())
}
