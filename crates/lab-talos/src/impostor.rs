//! Strangers that answer on a node's address, in its place.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use talmox_lab_environment::fault::Disguise;
use talmox_talos_config::network::Prefix;
use talmox_talos_config::schematic::Schematic;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::apid::{APID, Apid, plain_tls};
use super::connectivity::NodeConnection;
use super::fault::hold;
use super::hardware::Hardware;
use super::link::Link;
use super::network::{Layer, Network, fallback_name};
use super::sequence::uuid;
use super::simulation::Simulation;
use super::talos_state::{Node, Stage, TalosState};
use super::version::Version;
use super::wire::{FIRST_STRANGER, Incoming, PORTS};
use crate::image::{Medium, Platform, TalosImage};

/// What strangers run where they run Talos.
const RELEASE: &str = "v1.13.6";

impl Simulation {
    /// A stranger comes to an address, or to a node's as soon as that has one.
    pub(super) fn let_in(self: &Arc<Self>, at: &str, disguise: Disguise, lasts: Option<Duration>) {
        let vmid = self.change(|talos| {
            talos.strangers += 1;
            FIRST_STRANGER + talos.strangers
        });
        let (simulation, at) = (Arc::clone(self), at.to_owned());
        let playing = tokio::spawn(async move {
            let address = simulation.until(|talos| address_of(talos, &at)).await;
            let stranger = Stranger { simulation: Arc::clone(&simulation), vmid, address };
            let acting = stranger.act(disguise);
            match lasts {
                // It goes when its time is over.
                Some(lasts) => drop(simulation.clock().timeout(lasts, acting).await),
                None => acting.await,
            }
            simulation.change(|talos| talos.nodes.remove(&vmid));
        });
        self.replace(vmid, Some(playing.abort_handle()));
    }
}

fn address_of(talos: &TalosState, at: &str) -> Option<IpAddr> {
    let of_node = || {
        let mut nodes = talos.nodes.values().filter(|node| node.vmid < FIRST_STRANGER);
        nodes.find(|node| node.is_called(at))?.node_address()
    };
    at.parse().ok().or_else(of_node)
}

struct Stranger {
    simulation: Arc<Simulation>,
    /// No VM's: it has none.
    vmid: u32,
    address: IpAddr,
}

impl Stranger {
    /// Answers, on all ports that nodes have.
    async fn act(&self, disguise: Disguise) {
        let mut answering = JoinSet::new();
        for port in PORTS {
            let is_face = matches!(disguise, Disguise::Maintenance | Disguise::Talos);
            if is_face && port == APID {
                continue;
            }
            let Ok(incoming) = self.simulation.wire.answer(self.address, port, self.vmid) else {
                continue;
            };
            let tls = plain_tls(&self.simulation, self.address).ok();
            match disguise {
                Disguise::Silent => answering.spawn(hold(incoming)),
                Disguise::Tls => answering.spawn(chat(incoming, tls)),
                Disguise::Tcp => answering.spawn(chat(incoming, None)),
                Disguise::Maintenance | Disguise::Talos => answering.spawn(refuse(incoming)),
            };
        }
        let apid = match disguise {
            Disguise::Maintenance => {
                self.register(|node| Apid::maintenance(&self.simulation, node))
            }
            Disguise::Talos => self.register(|node| Apid::of_another(&self.simulation, node)),
            _ => None,
        };
        if let Some((boot, apid)) = apid {
            apid.serve(Arc::clone(&self.simulation), self.vmid, boot).await;
        } else {
            while answering.join_next().await.is_some() {}
        }
    }

    /// Makes a machine of it, with an apid of its own.
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

/// Nobody listens on this port.
async fn refuse(mut incoming: Incoming) {
    while incoming.next().await.is_some() {}
}

/// Says something to everybody that is not what they came for.
async fn chat(mut incoming: Incoming, tls: Option<TlsAcceptor>) {
    let mut connections = JoinSet::new();
    while let Some(socket) = incoming.next().await {
        while connections.try_join_next().is_some() {}
        let tls = tls.clone();
        // However it ends, the client notices.
        connections.spawn(async move { say(socket, tls).await.ok() });
    }
}

async fn say(mut socket: NodeConnection, tls: Option<TlsAcceptor>) -> std::io::Result<()> {
    let mut heard = [0; 1024];
    let Some(tls) = tls else {
        socket.write_all(b"220 ready\r\n").await?;
        // Whatever comes is not answered, and heard to its end: a socket that is closed with something unread takes
        // back what it has said.
        while socket.read(&mut heard).await? > 0 {}
        return Ok(());
    };
    let mut stream = tls.accept(socket).await?;
    if stream.read(&mut heard).await? == 0 {
        return Ok(());
    }
    stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n").await?;
    stream.shutdown().await
}
