//! Strangers that answer on a node's address, in its place.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use talmox_talos_config::network::Prefix;
use talmox_talos_config::schematic::Schematic;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::cable::Line;
use super::face::{APID, Face, plain_tls};
use super::fault::hold;
use super::hardware::Hardware;
use super::land::{Land, Node, Stage};
use super::link::Link;
use super::network::{Layer, Network, fallback_name};
use super::realm::Realm;
use super::sequence::uuid;
use super::version::Version;
use super::wire::{FIRST_STRANGER, Incoming, PORTS};
use crate::disk::{Medium, Platform, TalosImage};
use crate::fault::Disguise;

/// What strangers run where they run Talos.
const RELEASE: &str = "v1.13.6";

impl Realm {
    /// A stranger comes to an address, or to a node's as soon as that has one.
    pub(super) fn let_in(self: &Arc<Self>, at: &str, disguise: Disguise, lasts: Option<Duration>) {
        let vmid = self.change(|land| {
            land.strangers += 1;
            FIRST_STRANGER + land.strangers
        });
        let (realm, at) = (Arc::clone(self), at.to_owned());
        let playing = tokio::spawn(async move {
            let address = realm.until(|land| address_of(land, &at)).await;
            let stranger = Stranger { realm: Arc::clone(&realm), vmid, address };
            let acting = stranger.act(disguise);
            match lasts {
                // It goes when its time is over.
                Some(lasts) => drop(realm.clock().timeout(lasts, acting).await),
                None => acting.await,
            }
            realm.change(|land| land.nodes.remove(&vmid));
        });
        self.replace(vmid, Some(playing.abort_handle()));
    }
}

fn address_of(land: &Land, at: &str) -> Option<IpAddr> {
    let of_node = || {
        let mut nodes = land.nodes.values().filter(|node| node.vmid < FIRST_STRANGER);
        nodes.find(|node| node.is_called(at))?.node_address()
    };
    at.parse().ok().or_else(of_node)
}

struct Stranger {
    realm: Arc<Realm>,
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
            let Ok(incoming) = self.realm.wire.answer(self.address, port, self.vmid) else {
                continue;
            };
            let tls = plain_tls(&self.realm, self.address).ok();
            match disguise {
                Disguise::Silent => answering.spawn(hold(incoming)),
                Disguise::Tls => answering.spawn(chat(incoming, tls)),
                Disguise::Tcp => answering.spawn(chat(incoming, None)),
                Disguise::Maintenance | Disguise::Talos => answering.spawn(refuse(incoming)),
            };
        }
        let face = match disguise {
            Disguise::Maintenance => self.register(|node| Face::maintenance(&self.realm, node)),
            Disguise::Talos => self.register(|node| Face::of_another(&self.realm, node)),
            _ => None,
        };
        if let Some((boot, face)) = face {
            face.serve(Arc::clone(&self.realm), self.vmid, boot).await;
        } else {
            while answering.join_next().await.is_some() {}
        }
    }

    /// Makes a machine of it, with a face.
    fn register(&self, face: impl FnOnce(&Node) -> Result<Face, String>) -> Option<(u64, Face)> {
        let mut bytes = [0; 16];
        self.realm.chance("impostor").fill(&mut bytes);
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
        let clock = self.realm.clock();
        let made = self.realm.change(|land| {
            land.boots += 1;
            let boot = land.boots;
            let node = Node {
                network: Network { hostname, links: vec![link], ..Network::default() },
                stage: Stage::Maintenance,
                ..Node::new(self.vmid, boot, hardware, image, version, clock)
            };
            let made = face(&node).map(|face| (boot, face));
            land.nodes.insert(self.vmid, node);
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

async fn say(mut socket: Line, tls: Option<TlsAcceptor>) -> std::io::Result<()> {
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
