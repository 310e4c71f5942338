//! API server of one control plane, with its certificate and its listeners.

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
use crate::loopback_network::Incoming;
use crate::real_kubernetes::RealCluster;
use crate::simulation::Simulation;
use crate::talos_state::Membership;

pub(crate) const PORT: u16 = 6443;

/// Running API server that is registered in the cluster. Dropping this value stops and unregisters the server.
pub(super) struct RunningApiServer {
    simulation: Arc<Simulation>,
    cluster: u64,
    vmid: u32,
    _listening: Vec<BackendListener>,
    pub(super) backend: ApiBackend,
}

/// Server that answers on the addresses of a control plane.
#[derive(Clone, Debug)]
pub(crate) enum ApiBackend {
    Simulated(ApiServer),
    /// Real kube-apiserver. Connections are accepted only while etcd answers.
    Real(Arc<RealCluster>, watch::Receiver<Memory>),
}

/// Listener on an address. Dropping this value closes the listener.
#[derive(Debug)]
pub(crate) enum BackendListener {
    Simulated { _server: KubeServer },
    Real { _relay: JoinSet<()> },
}

impl ApiBackend {
    pub(crate) fn listen(&self, incoming: Incoming) -> BackendListener {
        match self {
            Self::Simulated(server) => {
                BackendListener::Simulated { _server: serve_at(incoming, server.clone()) }
            }
            Self::Real(cluster, memory) => {
                let mut relaying = JoinSet::new();
                relaying.spawn(relay(incoming, cluster.port, memory.clone()));
                BackendListener::Real { _relay: relaying }
            }
        }
    }
}

/// Forwards connections unchanged. When etcd stops answering, all connections are closed.
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
                // An error is ignored, because both sides notice how the connection ends.
                copy_bidirectional(&mut outside, &mut inside).await.ok();
            }
        });
    }
}

/// Parameters with which an API server is started. If they change, the API server restarts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StartParameters {
    pub(super) image: String,
    pub(super) version: u64,
    /// Host names and addresses of the node, without the loopback addresses of the lab.
    pub(super) names: BTreeSet<String>,
    pub(super) addresses: Vec<IpAddr>,
}

/// Starts an API server on all addresses of the node.
pub(super) fn start(
    simulation: &Arc<Simulation>,
    (membership, vmid): (Membership, u32),
    start: &StartParameters,
    facts: &Facts,
    store: &Arc<KubeStore>,
    memory: watch::Receiver<Memory>,
) -> Result<RunningApiServer, String> {
    let mut listeners = vec![];
    for address in &start.addresses {
        listeners.push(
            simulation.loopback_network.serve(*address, PORT, vmid).map_err(|e| e.to_string())?,
        );
    }
    let names = with_loopback_addresses(simulation, facts, &start.names);
    let backend = if let Some(programs) = &simulation.settings.real {
        let cluster = simulation.real.of(programs, membership.cluster, facts, &names)?;
        ApiBackend::Real(cluster, memory)
    } else {
        let tls = certificate(simulation, facts, &names)?;
        let version = start.image.rsplit_once(':').map_or("v0.0.0", |(_, tag)| tag);
        let version: Arc<str> = version.split('@').next().unwrap_or(version).into();
        store.admit_pods_by(&facts.admission_control, &version);
        let host = Arc::new(ServerNode { simulation: Arc::clone(simulation), vmid });
        let store = Arc::clone(store);
        ApiBackend::Simulated(ApiServer { store, tls, version, memory, host: Some(host) })
    };
    let listening = listeners.into_iter().map(|incoming| backend.listen(incoming)).collect();
    let first = start.addresses.first().copied();
    simulation.change(|talos| {
        if let (Some(cluster), Some(first)) = (talos.etcds.get_mut(&membership.cluster), first) {
            cluster.api_servers.insert(vmid, first);
        }
    });
    let (simulation, cluster) = (Arc::clone(simulation), membership.cluster);
    let running = RunningApiServer { simulation, cluster, vmid, _listening: listening, backend };
    running.update_endpoints();
    Ok(running)
}

impl RunningApiServer {
    /// Sets the endpoints of the service `kubernetes` to all running API servers.
    fn update_endpoints(&self) {
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

impl Drop for RunningApiServer {
    fn drop(&mut self) {
        self.simulation.change(|talos| {
            if let Some(cluster) = talos.etcds.get_mut(&self.cluster) {
                cluster.api_servers.remove(&self.vmid);
            }
        });
        self.update_endpoints();
    }
}

/// All names in the server certificate: the names of the cluster, and those of this node.
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

/// Names in the certificate, and the loopback addresses at which clients outside the lab reach them. This includes virtual IPs
/// that are not active yet.
fn with_loopback_addresses(
    simulation: &Simulation,
    facts: &Facts,
    names: &BTreeSet<String>,
) -> BTreeSet<String> {
    let endpoint = facts.endpoint.iter().filter_map(|(host, _)| host.parse().ok());
    for address in facts.vips().chain(endpoint) {
        // Without a loopback address, clients outside the lab cannot reach the address.
        simulation.loopback_network.prepare(address).ok();
    }
    let loopback = |name: &String| simulation.loopback_network.loopback_address(name.parse().ok()?);
    let more = names.iter().filter_map(loopback).map(|address| address.to_string());
    names.iter().cloned().chain(more).collect()
}

/// First address of a subnet. In the service subnet, this is the address of the service `kubernetes`.
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
    // The earlier one of lab time and real time is used, so that clients outside the lab accept the certificate.
    let now = simulation.clock().unix().min(Clock::real().unix());
    let now = UnixTime::from_seconds(i64::try_from(now).unwrap_or(i64::MAX));
    let backdated = now.minus(Duration::from_hours(1));
    KubeTls::issue(&authority, alt_names.collect(), backdated, &mut SystemRandomness::new())
        .map_err(|error| error.to_string())
}
