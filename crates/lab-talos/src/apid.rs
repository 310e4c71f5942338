//! apid, the server of the Talos API on port 50000: of a node in maintenance, which answers every client, or of a configured one,
//! which requires a certificate.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::time_provider::TimeProvider;
use rustls::{RootCertStore, ServerConfig};
use talmox_clock::Clock;
use talmox_talos_config::pki::{
    AltName, Authority, AuthorityRequest, Certificate, KeyKind, LeafRequest, Name, Usage,
    new_authority,
};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::time::UnixTime as Seconds;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::api::{self, Caller, Session};
use super::config::Facts;
use super::connectivity::NodeConnection;
use super::simulation::Simulation;
use super::talos_state::{Node, TalosState};

/// The port of the Talos API.
pub(crate) const APID: u16 = 50000;
const HANDSHAKE: Duration = Duration::from_secs(10);
const DAY: Duration = Duration::from_hours(24);
/// How long a certificate is shown before another one is made.
pub(super) const RENEWED: Duration = Duration::from_hours(12);
/// Clients whose clocks are a little behind are not turned away by a certificate of just now.
const BACKDATED: Duration = Duration::from_mins(10);
/// How long somebody who is being answered can keep a node in maintenance, in real time.
const LEAVING: Duration = Duration::from_secs(2);
/// When after its start a node in maintenance shows another certificate, in the lab's time.
const REISSUED: [Duration; 2] = [Duration::from_millis(700), Duration::from_secs(2)];

/// The TLS configurations that apid answers with.
pub(super) enum Apid {
    /// A certificate for now, and the ones that follow it.
    Maintenance(Vec<(Duration, Arc<ServerConfig>)>),
    Configured(Arc<ServerConfig>),
}

impl Apid {
    /// Of a node without a config: certificates of its own, soon replaced by others.
    pub(super) fn maintenance(simulation: &Simulation, node: &Node) -> Result<Self, String> {
        let started = simulation.now();
        let mut configs = vec![];
        for after in [Duration::ZERO].into_iter().chain(REISSUED) {
            let shown = issue(&authority(simulation, node.clock_skew)?, simulation, node, &[])?;
            let config = server(clock_of(simulation, node), None, shown)?;
            configs.push((started + after, config));
        }
        Ok(Self::Maintenance(configs))
    }

    /// Of a node with a config. `signer` has the key of the authority: the node itself,
    /// or a control plane that it asks.
    pub(super) fn configured(
        simulation: &Simulation,
        node: &Node,
        facts: &Facts,
        signer: &str,
    ) -> Result<Self, String> {
        let authority = Authority::from_pem(&facts.ca, signer).map_err(|e| e.to_string())?;
        let shown = issue(&authority, simulation, node, &facts.cert_sans)?;
        let trusted = std::iter::once(&facts.ca).chain(&facts.accepted_cas);
        let mut roots = RootCertStore::empty();
        for pem in trusted {
            let authority = Certificate::from_pem(pem).map_err(|e| e.to_string())?;
            roots
                .add(CertificateDer::from(authority.as_der().to_vec()))
                .map_err(|e| e.to_string())?;
        }
        Ok(Self::Configured(server(clock_of(simulation, node), Some(roots), shown)?))
    }

    /// Of a node of another cluster, whose authority is unknown here.
    pub(super) fn of_another(simulation: &Simulation, node: &Node) -> Result<Self, String> {
        let authority = authority(simulation, node.clock_skew)?;
        let shown = issue(&authority, simulation, node, &[])?;
        let mut roots = RootCertStore::empty();
        let trusted = CertificateDer::from(authority.certificate.as_der().to_vec());
        roots.add(trusted).map_err(|e| e.to_string())?;
        Ok(Self::Configured(server(clock_of(simulation, node), Some(roots), shown)?))
    }

    fn config(&self, now: Duration) -> (Arc<ServerConfig>, bool) {
        match self {
            Self::Maintenance(configs) => {
                let current = configs.iter().rev().find(|(from, _)| *from <= now);
                let current =
                    current.or(configs.first()).expect("invariant: there is one at least");
                (Arc::clone(&current.1), true)
            }
            Self::Configured(config) => (Arc::clone(config), false),
        }
    }

    /// Waits for the end of maintenance, which comes with a config.
    async fn leaving(&self, simulation: &Simulation, vmid: u32) {
        match self {
            Self::Maintenance(_) => {
                simulation.until(|talos| has_config(talos, vmid).then_some(())).await;
            }
            Self::Configured(_) => std::future::pending().await,
        }
    }

    /// Answers on all addresses that the node has, whatever they become, until this is dropped or maintenance
    /// is over. Whoever gave the node its config gets an answer before that.
    pub(super) async fn serve(self, simulation: Arc<Simulation>, vmid: u32, boot: u64) {
        let this = Arc::new(self);
        let is_maintenance = matches!(*this, Self::Maintenance(_));
        let mut listening: BTreeMap<IpAddr, JoinSet<()>> = BTreeMap::new();
        let mut news = simulation.news();
        loop {
            news.borrow_and_update();
            if is_maintenance && simulation.look(|talos| has_config(talos, vmid)) {
                for accepting in listening.into_values() {
                    accepting.join_all().await;
                }
                return;
            }
            let wanted: BTreeSet<IpAddr> = simulation.look(|talos| {
                let node = talos.nodes.get(&vmid).filter(|node| node.boot == boot);
                let links = node.into_iter().flat_map(|node| &node.network.links);
                let own = links.filter(|link| link.is_up).flat_map(|link| &link.addresses);
                let shared = node.into_iter().flat_map(|node| node.network.shared.iter().copied());
                own.map(|(prefix, _)| prefix.address()).chain(shared).collect()
            });
            listening.retain(|address, _| wanted.contains(address));
            for address in wanted {
                listening.entry(address).or_insert_with(|| {
                    let mut set = JoinSet::new();
                    set.spawn(Arc::clone(&this).accept(
                        Arc::clone(&simulation),
                        vmid,
                        boot,
                        address,
                    ));
                    set
                });
            }
            if news.changed().await.is_err() {
                return;
            }
        }
    }

    async fn accept(
        self: Arc<Self>,
        simulation: Arc<Simulation>,
        vmid: u32,
        boot: u64,
        address: IpAddr,
    ) {
        // An address that loopback cannot stand for: nobody reaches this node there.
        let Some(mut incoming) = simulation.wire.answer_soon(address, APID, vmid).await else {
            return;
        };
        let mut connections = JoinSet::new();
        let mut leaving = pin!(self.leaving(&simulation, vmid));
        loop {
            let socket = tokio::select! {
                socket = incoming.next() => socket,
                () = leaving.as_mut() => None,
            };
            let Some(socket) = socket else { break };
            while connections.try_join_next().is_some() {}
            let (this, simulation) = (Arc::clone(&self), Arc::clone(&simulation));
            connections.spawn(async move {
                let session = Session::new(simulation, vmid, boot);
                this.converse(socket, session).await;
            });
        }
        drop(incoming);
        tokio::time::timeout(LEAVING, connections.join_all()).await.ok();
    }

    async fn converse(&self, socket: NodeConnection, session: Session) {
        let (simulation, vmid) = (Arc::clone(&session.simulation), session.vmid);
        let (config, is_maintenance) = self.config(simulation.now());
        let accepting = TlsAcceptor::from(config).accept(socket);
        let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, accepting).await else { return };
        let caller = if is_maintenance {
            Caller::Anonymous
        } else {
            let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
            Caller::Roles(shown.first().map(roles).unwrap_or_default())
        };
        let line = Arc::clone(&session.line);
        let services = api::services(Session { caller, ..session });
        tokio::select! {
            // A connection that breaks is the client's to notice.
            served = services.serve_until(stream, self.leaving(&simulation, vmid)) => drop(served),
            () = line.notified() => {}
        }
    }
}

/// Closes every connection to the node before it is answered, until this is dropped: apid of 1.13 has the port open while it
/// changes from maintenance to mutual TLS.
pub(super) async fn close_connections(simulation: &Arc<Simulation>, vmid: u32) {
    let addresses: Vec<IpAddr> = simulation.look(|talos| {
        let node = talos.nodes.get(&vmid);
        node.map(|node| node.network.addresses().collect()).unwrap_or_default()
    });
    let mut closing = JoinSet::new();
    for address in addresses {
        let wire = Arc::clone(&simulation.wire);
        closing.spawn(async move {
            let Some(mut incoming) = wire.answer_soon(address, APID, vmid).await else { return };
            while let Some(socket) = incoming.next().await {
                drop(socket);
            }
        });
    }
    while closing.join_next().await.is_some() {}
    // An unreachable node has no connection to close.
    std::future::pending::<()>().await;
}

fn has_config(talos: &TalosState, vmid: u32) -> bool {
    talos.nodes.get(&vmid).is_none_or(|node| node.config.is_some())
}

/// The organizations of a certificate are the roles of who shows it.
fn roles(certificate: &CertificateDer<'_>) -> BTreeSet<String> {
    Certificate::from_der(certificate.to_vec())
        .map(|certificate| certificate.subject.organizations.into_iter().collect())
        .unwrap_or_default()
}

/// Certificates of a right clock are good from a moment that is past for clients too: their time is ours, or
/// behind it. `skew` is what the clock is off by that they are issued by, in seconds.
fn issue_time(simulation: &Simulation, skew: i64) -> Seconds {
    let real = i64::try_from(Clock::real().unix()).unwrap_or_default();
    let own = i64::try_from(simulation.now().as_secs()).unwrap_or_default();
    Seconds::from_seconds(real.min(own).saturating_add(skew)).minus(BACKDATED)
}

/// To the end of a day from now on by the same clock, which may be far ahead of ours.
fn good_for(simulation: &Simulation, skew: i64, not_before: Seconds) -> Duration {
    let now = i64::try_from(simulation.now().as_secs()).unwrap_or_default().saturating_add(skew);
    DAY + Seconds::from_seconds(now).remaining(not_before).unwrap_or_default()
}

/// An authority of just now.
fn authority(simulation: &Simulation, skew: i64) -> Result<Authority, String> {
    let request = AuthorityRequest {
        subject: Name::organization("talos"),
        kind: KeyKind::Ed25519,
        not_before: issue_time(simulation, skew),
        lifetime: DAY,
    };
    new_authority(&request, &mut SystemRandomness::new()).map_err(|e| e.to_string())
}

/// What a server shows that is no node, but has TLS.
pub(super) fn plain_tls(simulation: &Simulation, address: IpAddr) -> Result<TlsAcceptor, String> {
    let names = vec![AltName::Ip(address)];
    let shown = leaf(&authority(simulation, 0)?, simulation, 0, ("server", names))?;
    let time = Arc::new(OwnTime { clock: simulation.clock(), skew: 0 });
    let mut config = ServerConfig::clone(&*server(time, None, shown)?);
    config.alpn_protocols.clear();
    Ok(TlsAcceptor::from(Arc::new(config)))
}

type Shown = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn issue(
    authority: &Authority,
    simulation: &Simulation,
    node: &Node,
    further: &[String],
) -> Result<Shown, String> {
    let mut names = vec![];
    let mut add = |name: AltName| {
        if !names.contains(&name) {
            names.push(name);
        }
    };
    for address in node.network.addresses() {
        add(AltName::Ip(address));
        // Where clients that know their way into the lab find it. What loopback cannot stand for, nobody
        // comes by.
        simulation.wire.prepare(address).ok();
        simulation.wire.loopback(address).into_iter().for_each(|address| add(AltName::Ip(address)));
    }
    add(AltName::Ip(std::net::Ipv4Addr::LOCALHOST.into()));
    add(AltName::Dns(node.network.hostname.clone()));
    add(AltName::Dns(node.network.full_name()));
    for name in further {
        add(match name.parse::<IpAddr>() {
            Ok(address) => AltName::Ip(address),
            Err(_) => AltName::Dns(name.clone()),
        });
    }
    leaf(authority, simulation, node.clock_skew, (&node.network.full_name(), names))
}

fn leaf(
    authority: &Authority,
    simulation: &Simulation,
    skew: i64,
    (name, alt_names): (&str, Vec<AltName>),
) -> Result<Shown, String> {
    let not_before = issue_time(simulation, skew);
    let leaf = LeafRequest {
        subject: Name { organizations: vec![], common_name: Some(name.to_owned()) },
        alt_names,
        usage: Usage::Server,
        key_encipherment: false,
        not_before,
        lifetime: good_for(simulation, skew, not_before),
    };
    let mut randomness = SystemRandomness::new();
    let (certificate, key) = authority.issue(&leaf, &mut randomness).map_err(|e| e.to_string())?;
    let key = PrivateKeyDer::from_pem_slice(key.to_pkcs8_pem().expose().as_bytes())
        .map_err(|e| e.to_string())?;
    let chain = [certificate.as_der(), authority.certificate.as_der()];
    Ok((chain.map(|der| CertificateDer::from(der.to_vec())).to_vec(), key))
}

fn server(
    time: Arc<dyn TimeProvider>,
    clients: Option<RootCertStore>,
    (chain, key): Shown,
) -> Result<Arc<ServerConfig>, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_details(Arc::clone(&provider), time)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|e| e.to_string())?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(roots) => builder.with_client_cert_verifier(
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|e| e.to_string())?,
        ),
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|e| e.to_string())?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    // Every connection shows its certificate: a node that was wiped must not be taken for itself.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// A node's own time: the lab's, and what its clock is off by.
fn clock_of(simulation: &Simulation, node: &Node) -> Arc<dyn TimeProvider> {
    Arc::new(OwnTime { clock: simulation.clock(), skew: node.clock_skew })
}

#[derive(Debug)]
struct OwnTime {
    clock: Clock,
    /// In seconds.
    skew: i64,
}

impl TimeProvider for OwnTime {
    fn current_time(&self) -> Option<UnixTime> {
        let now = self.clock.since_epoch().as_secs().saturating_add_signed(self.skew);
        Some(UnixTime::since_unix_epoch(Duration::from_secs(now)))
    }
}

#[cfg(test)]
mod tests {
    use talmox_talos_config::generate::Role;

    use super::*;
    use crate::bench::Bench;

    #[tokio::test]
    async fn maintenance_soon_has_other_certificates() {
        let bench = Bench::new();
        bench.start(11, bench.config(&bench.bundle, Role::ControlPlane, |_| {}));
        let apid =
            bench.simulation.look(|talos| Apid::maintenance(&bench.simulation, &talos.nodes[&11]));
        let apid = apid.unwrap();
        let Apid::Maintenance(configs) = &apid else { panic!("it is configured") };
        let began = configs[0].0;
        let after: Vec<Duration> =
            configs.iter().map(|(from, _)| from.saturating_sub(began)).collect();
        assert_eq!(after, [Duration::ZERO, REISSUED[0], REISSUED[1]]);
        let shown = |time: Duration| Arc::as_ptr(&apid.config(time).0);
        let all: BTreeSet<_> = configs.iter().map(|(from, _)| shown(*from)).collect();
        assert_eq!(all.len(), 3);
        assert_eq!(shown(began + DAY), Arc::as_ptr(&configs[2].1));
    }
}
