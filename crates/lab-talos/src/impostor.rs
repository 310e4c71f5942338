//! Impostors: other servers that answer on the address of a node.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use talmox_lab_environment::fault::ImpostorKind;
use talmox_talos_config::network::Prefix;
use talmox_talos_config::schematic::Schematic;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::apid::{APID_PORT, Apid, plain_tls};
use super::connectivity::NodeConnection;
use super::fault::accept_silently;
use super::hardware::Hardware;
use super::link::Link;
use super::loopback_network::{FIRST_IMPOSTOR, Incoming, PORTS};
use super::network::{Layer, Network, fallback_name};
use super::sequence::uuid;
use super::simulation::Simulation;
use super::talos_state::{Node, Stage, TalosState};
use super::version::Version;
use crate::image::{Medium, Platform, TalosImage};

/// Talos version of impostors that run Talos.
const RELEASE: &str = "v1.13.6";

impl Simulation {
    /// Starts an impostor at an address. `at` may also be the name of a node; the impostor then starts as soon as the node has
    /// an address.
    pub(super) fn start_impostor(
        self: &Arc<Self>,
        at: &str,
        kind: ImpostorKind,
        lasts: Option<Duration>,
    ) {
        let vmid = self.change(|talos| {
            talos.impostors += 1;
            FIRST_IMPOSTOR + talos.impostors
        });
        let (simulation, at) = (Arc::clone(self), at.to_owned());
        let guest_task = tokio::spawn(async move {
            let address = simulation.until(|talos| address_of(talos, &at)).await;
            let impostor = Impostor { simulation: Arc::clone(&simulation), vmid, address };
            let acting = impostor.run(kind);
            match lasts {
                // After this time the impostor ends.
                Some(lasts) => drop(simulation.clock().timeout(lasts, acting).await),
                None => acting.await,
            }
            simulation.change(|talos| talos.nodes.remove(&vmid));
        });
        self.replace_task(vmid, Some(guest_task.abort_handle()));
    }
}

fn address_of(talos: &TalosState, at: &str) -> Option<IpAddr> {
    let of_node = || {
        let mut nodes = talos.nodes.values().filter(|node| node.vmid < FIRST_IMPOSTOR);
        nodes.find(|node| node.has_name(at))?.node_address()
    };
    at.parse().ok().or_else(of_node)
}

struct Impostor {
    simulation: Arc<Simulation>,
    /// vmid of the impostor. No VM has this vmid.
    vmid: u32,
    address: IpAddr,
}

impl Impostor {
    /// Answers on all ports that a node uses.
    async fn run(&self, kind: ImpostorKind) {
        let mut answering = JoinSet::new();
        for port in PORTS {
            let is_talos = matches!(kind, ImpostorKind::Maintenance | ImpostorKind::Talos);
            if is_talos && port == APID_PORT {
                continue;
            }
            let Ok(incoming) =
                self.simulation.loopback_network.serve(self.address, port, self.vmid)
            else {
                continue;
            };
            let tls = plain_tls(&self.simulation, self.address).ok();
            match kind {
                ImpostorKind::Silent => answering.spawn(accept_silently(incoming)),
                ImpostorKind::Tls => answering.spawn(greet(incoming, tls)),
                ImpostorKind::Tcp => answering.spawn(greet(incoming, None)),
                ImpostorKind::Maintenance | ImpostorKind::Talos => {
                    answering.spawn(close_all(incoming))
                }
            };
        }
        let apid = match kind {
            ImpostorKind::Maintenance => {
                self.register(|node| Apid::maintenance(&self.simulation, node))
            }
            ImpostorKind::Talos => {
                self.register(|node| Apid::foreign_cluster(&self.simulation, node))
            }
            _ => None,
        };
        if let Some((boot, apid)) = apid {
            apid.serve(Arc::clone(&self.simulation), self.vmid, boot).await;
        } else {
            while answering.join_next().await.is_some() {}
        }
    }

    /// Registers the impostor as a machine that runs apid.
    fn register(&self, apid: impl FnOnce(&Node) -> Result<Apid, String>) -> Option<(u64, Apid)> {
        let mut bytes = [0; 16];
        self.simulation.chance("impostor").fill(&mut bytes);
        let uuid = uuid(&bytes);
        let length = if self.address.is_ipv4() { 24 } else { 64 };
        let link = Link {
            name: "eth0".to_owned(),
            mac: format!(
                "02:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}",
                bytes[0], bytes[1], bytes[2], bytes[3], bytes[4]
            ),
            mtu: 1500,
            is_up: true,
            addresses: vec![(Prefix::new(self.address, length)?, Layer::Platform)],
            ..Link::default()
        };
        let hostname = fallback_name(&uuid);
        let hardware = Hardware {
            name: hostname.clone(),
            uuid,
            cpus: 2,
            memory: 4 << 30,
            ..Hardware::default()
        };
        let image = TalosImage::new(
            RELEASE.to_owned(),
            Platform::Nocloud,
            Schematic::default(),
            false,
            Medium::Disk,
        );
        let version = Version::parse(RELEASE)?;
        let clock = self.simulation.clock();
        let made = self.simulation.change(|talos| {
            talos.boots += 1;
            let boot = talos.boots;
            let node = Node {
                network: Network { hostname, links: vec![link], ..Network::default() },
                stage: Stage::Maintenance,
                ..Node::new(self.vmid, boot, hardware, image, version, clock)
            };
            let made = apid(&node).map(|apid| (boot, apid));
            talos.nodes.insert(self.vmid, node);
            made
        });
        made.ok()
    }
}

/// Accepts connections and closes them at once, like a port without a listener.
async fn close_all(mut incoming: Incoming) {
    while incoming.next().await.is_some() {}
}

/// Sends the greeting of an unrelated service to every client.
async fn greet(mut incoming: Incoming, tls: Option<TlsAcceptor>) {
    let mut connections = JoinSet::new();
    while let Some(socket) = incoming.next().await {
        while connections.try_join_next().is_some() {}
        let tls = tls.clone();
        // An error is ignored, because the client notices how the connection ends.
        connections.spawn(async move { send_greeting(socket, tls).await.ok() });
    }
}

async fn send_greeting(
    mut socket: NodeConnection,
    tls: Option<TlsAcceptor>,
) -> std::io::Result<()> {
    let mut received = [0; 1024];
    let Some(tls) = tls else {
        socket.write_all(b"220 ready\r\n").await?;
        // The input is read to its end without an answer. If the socket were closed with unread data, the bytes that were sent
        // before would be lost.
        while socket.read(&mut received).await? > 0 {}
        return Ok(());
    };
    let mut stream = tls.accept(socket).await?;
    if stream.read(&mut received).await? == 0 {
        return Ok(());
    }
    stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n").await?;
    stream.shutdown().await
}
