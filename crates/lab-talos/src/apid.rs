//! apid, the server of the Talos API on port 50000. In maintenance mode it accepts every client. On a configured node it
//! requires a client certificate.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::time_provider::TimeProvider;
use rustls::{RootCertStore, ServerConfig};
use talmox_clock::Clock;
use talmox_net::tls::{self, ClockTime};
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

/// Port of the Talos API.
pub(crate) const APID_PORT: u16 = 50000;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const DAY: Duration = Duration::from_hours(24);
/// Age at which a certificate is replaced.
pub(super) const CERTIFICATE_RENEWAL: Duration = Duration::from_hours(12);
/// Time by which the validity of a certificate starts before its issue, so that clients with slightly slow clocks accept it.
const CERTIFICATE_BACKDATING: Duration = Duration::from_mins(10);
/// Maximum time, in real time, for which an open call delays the end of maintenance mode.
const MAINTENANCE_EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Times at which a node in maintenance mode replaces its certificate, in lab time since the start of apid.
const MAINTENANCE_REISSUE_TIMES: [Duration; 2] =
    [Duration::from_millis(700), Duration::from_secs(2)];

/// TLS configuration of apid.
pub(super) enum Apid {
    /// Certificates, each with the time from which it is used.
    Maintenance(Vec<(Duration, Arc<ServerConfig>)>),
    Configured(Arc<ServerConfig>),
}

impl Apid {
    /// Settings for maintenance mode: self-signed certificates, which are replaced soon after the start.
    pub(super) fn maintenance(simulation: &Simulation, node: &Node) -> Result<Self, String> {
        let started = simulation.now();
        let mut configs = vec![];
        for after in [Duration::ZERO].into_iter().chain(MAINTENANCE_REISSUE_TIMES) {
            let shown = issue(&authority(simulation, node.clock_skew)?, simulation, node, &[])?;
            let config = server_config(node_clock(simulation, node), None, shown)?;
            configs.push((started + after, config));
        }
        Ok(Self::Maintenance(configs))
    }

    /// Settings for a configured node. `signer` is the private key of the Talos CA. It comes from the config of the node
    /// itself, or from the control plane that signs for the node.
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
        Ok(Self::Configured(server_config(node_clock(simulation, node), Some(roots), shown)?))
    }

    /// Settings for a node of another cluster, with a CA that clients do not trust.
    pub(super) fn foreign_cluster(simulation: &Simulation, node: &Node) -> Result<Self, String> {
        let authority = authority(simulation, node.clock_skew)?;
        let shown = issue(&authority, simulation, node, &[])?;
        let mut roots = RootCertStore::empty();
        let trusted = CertificateDer::from(authority.certificate.as_der().to_vec());
        roots.add(trusted).map_err(|e| e.to_string())?;
        Ok(Self::Configured(server_config(node_clock(simulation, node), Some(roots), shown)?))
    }

    fn config(&self, now: Duration) -> (Arc<ServerConfig>, bool) {
        match self {
            Self::Maintenance(configs) => {
                let current = configs.iter().rev().find(|(from, _)| *from <= now);
                let current = current
                    .or(configs.first())
                    .expect("invariant: there is at least one certificate");
                (Arc::clone(&current.1), true)
            }
            Self::Configured(config) => (Arc::clone(config), false),
        }
    }

    /// Waits until maintenance mode ends, because the node got a config.
    async fn until_configured(&self, simulation: &Simulation, vmid: u32) {
        match self {
            Self::Maintenance(_) => {
                simulation.until(|talos| has_config(talos, vmid).then_some(())).await;
            }
            Self::Configured(_) => std::future::pending().await,
        }
    }

    /// Serves on all addresses of the node, also after a change of the addresses. Ends when the future is dropped or
    /// maintenance mode ends. The client that applied the config gets its answer before that.
    pub(super) async fn serve(self, simulation: Arc<Simulation>, vmid: u32, boot: u64) {
        let this = Arc::new(self);
        let is_maintenance = matches!(*this, Self::Maintenance(_));
        let mut listening: BTreeMap<IpAddr, JoinSet<()>> = BTreeMap::new();
        let mut state_changes = simulation.state_changes();
        loop {
            state_changes.borrow_and_update();
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
                let virtual_ips =
                    node.into_iter().flat_map(|node| node.network.virtual_ips.iter().copied());
                own.map(|(prefix, _)| prefix.address()).chain(virtual_ips).collect()
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
            if state_changes.changed().await.is_err() {
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
        // This address has no loopback address, so no client can connect to it.
        let Some(mut incoming) =
            simulation.loopback_network.serve_with_retries(address, APID_PORT, vmid).await
        else {
            return;
        };
        let mut connections = JoinSet::new();
        let mut leaving = pin!(self.until_configured(&simulation, vmid));
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
                this.serve_connection(socket, session).await;
            });
        }
        drop(incoming);
        tokio::time::timeout(MAINTENANCE_EXIT_TIMEOUT, connections.join_all()).await.ok();
    }

    async fn serve_connection(&self, socket: NodeConnection, session: Session) {
        let (simulation, vmid) = (Arc::clone(&session.simulation), session.vmid);
        let (config, is_maintenance) = self.config(simulation.now());
        let accepting = TlsAcceptor::from(config).accept(socket);
        let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, accepting).await else {
            return;
        };
        let caller = if is_maintenance {
            Caller::Anonymous
        } else {
            let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
            Caller::Roles(shown.first().map(roles).unwrap_or_default())
        };
        let line = Arc::clone(&session.line);
        let services = api::services(Session { caller, ..session });
        tokio::select! {
            // An error of the connection is ignored, because the client notices it as well.
            served = services.serve_until(stream, self.until_configured(&simulation, vmid)) => drop(served),
            () = line.notified() => {}
        }
    }
}

/// Closes every connection to the node without an answer, until the future is dropped. apid of Talos 1.13 does this while it
/// changes from maintenance mode to mutual TLS.
pub(super) async fn close_connections(simulation: &Arc<Simulation>, vmid: u32) {
    let addresses: Vec<IpAddr> = simulation.look(|talos| {
        let node = talos.nodes.get(&vmid);
        node.map(|node| node.network.addresses().collect()).unwrap_or_default()
    });
    let mut closing = JoinSet::new();
    for address in addresses {
        let loopback_network = Arc::clone(&simulation.loopback_network);
        closing.spawn(async move {
            let Some(mut incoming) =
                loopback_network.serve_with_retries(address, APID_PORT, vmid).await
            else {
                return;
            };
            while let Some(socket) = incoming.next().await {
                drop(socket);
            }
        });
    }
    while closing.join_next().await.is_some() {}
    // Without a loopback address there are no connections to close.
    std::future::pending::<()>().await;
}

fn has_config(talos: &TalosState, vmid: u32) -> bool {
    talos.nodes.get(&vmid).is_none_or(|node| node.config.is_some())
}

/// Roles of a client: the organizations of its certificate.
fn roles(certificate: &CertificateDer<'_>) -> BTreeSet<String> {
    Certificate::from_der(certificate.to_vec())
        .map(|certificate| certificate.subject.organizations.into_iter().collect())
        .unwrap_or_default()
}

/// Start of the validity of a new certificate. It must be in the past for clients with real time and for clients with lab time.
/// `skew` is the error of the issuing clock in seconds.
fn issue_time(simulation: &Simulation, skew: i64) -> Seconds {
    let real = i64::try_from(Clock::real().unix()).unwrap_or_default();
    let own = i64::try_from(simulation.now().as_secs()).unwrap_or_default();
    Seconds::from_seconds(real.min(own).saturating_add(skew)).minus(CERTIFICATE_BACKDATING)
}

/// Lifetime of a certificate that is valid until one day from now. "Now" is the time of the issuing clock, which may be far
/// ahead of the start of the validity.
fn validity(simulation: &Simulation, skew: i64, not_before: Seconds) -> Duration {
    let now = i64::try_from(simulation.now().as_secs()).unwrap_or_default().saturating_add(skew);
    DAY + Seconds::from_seconds(now).remaining(not_before).unwrap_or_default()
}

/// Creates a self-signed CA.
fn authority(simulation: &Simulation, skew: i64) -> Result<Authority, String> {
    let request = AuthorityRequest {
        subject: Name::organization("talos"),
        kind: KeyKind::Ed25519,
        not_before: issue_time(simulation, skew),
        lifetime: DAY,
    };
    new_authority(&request, &mut SystemRandomness::new()).map_err(|e| e.to_string())
}

/// TLS settings of a server that is not a Talos node.
pub(super) fn plain_tls(simulation: &Simulation, address: IpAddr) -> Result<TlsAcceptor, String> {
    let names = vec![AltName::Ip(address)];
    let shown = issue_leaf(&authority(simulation, 0)?, simulation, 0, ("server", names))?;
    let time = Arc::new(ClockTime::new(simulation.clock()));
    let mut config = ServerConfig::clone(&*server_config(time, None, shown)?);
    config.alpn_protocols.clear();
    Ok(TlsAcceptor::from(Arc::new(config)))
}

type ServerIdentity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn issue(
    authority: &Authority,
    simulation: &Simulation,
    node: &Node,
    further: &[String],
) -> Result<ServerIdentity, String> {
    let mut names = vec![];
    let mut add = |name: AltName| {
        if !names.contains(&name) {
            names.push(name);
        }
    };
    for address in node.network.addresses() {
        add(AltName::Ip(address));
        // Adds the loopback address at which clients outside the lab reach the node. Without a loopback address, an address
        // cannot be reached.
        simulation.loopback_network.prepare(address).ok();
        simulation
            .loopback_network
            .loopback_address(address)
            .into_iter()
            .for_each(|address| add(AltName::Ip(address)));
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
    issue_leaf(authority, simulation, node.clock_skew, (&node.network.full_name(), names))
}

fn issue_leaf(
    authority: &Authority,
    simulation: &Simulation,
    skew: i64,
    (name, alt_names): (&str, Vec<AltName>),
) -> Result<ServerIdentity, String> {
    let not_before = issue_time(simulation, skew);
    let leaf = LeafRequest {
        subject: Name { organizations: vec![], common_name: Some(name.to_owned()) },
        alt_names,
        usage: Usage::Server,
        key_encipherment: false,
        not_before,
        lifetime: validity(simulation, skew, not_before),
    };
    let mut randomness = SystemRandomness::new();
    let (certificate, key) = authority.issue(&leaf, &mut randomness).map_err(|e| e.to_string())?;
    let key = PrivateKeyDer::from_pem_slice(key.to_pkcs8_pem().expose().as_bytes())
        .map_err(|e| e.to_string())?;
    let chain = [certificate.as_der(), authority.certificate.as_der()];
    Ok((chain.map(|der| CertificateDer::from(der.to_vec())).to_vec(), key))
}

fn server_config(
    time: Arc<dyn TimeProvider>,
    clients: Option<RootCertStore>,
    (chain, key): ServerIdentity,
) -> Result<Arc<ServerConfig>, String> {
    let builder = ServerConfig::builder_with_details(tls::provider(), time)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|e| e.to_string())?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(roots) => builder.with_client_cert_verifier(
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), tls::provider())
                .build()
                .map_err(|e| e.to_string())?,
        ),
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|e| e.to_string())?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    // Session tickets are disabled, so that every connection presents a certificate. With tickets, a client could resume the
    // session of a node that was wiped in the meantime.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Clock of a node: lab time plus the error of the node's clock.
fn node_clock(simulation: &Simulation, node: &Node) -> Arc<dyn TimeProvider> {
    Arc::new(ClockTime::skewed(simulation.clock(), node.clock_skew))
}

#[cfg(test)]
mod tests {
    use talmox_talos_config::generate::Role;

    use super::*;
    use crate::test_bench::Bench;

    #[tokio::test]
    async fn maintenance_mode_replaces_its_certificate_soon_after_the_start() {
        let bench = Bench::new();
        bench.start(11, bench.config(&bench.bundle, Role::ControlPlane, |_| {}));
        let apid =
            bench.simulation.look(|talos| Apid::maintenance(&bench.simulation, &talos.nodes[&11]));
        let apid = apid.unwrap();
        let Apid::Maintenance(configs) = &apid else { panic!("apid is not in maintenance mode") };
        let began = configs[0].0;
        let after: Vec<Duration> =
            configs.iter().map(|(from, _)| from.saturating_sub(began)).collect();
        assert_eq!(
            after,
            [Duration::ZERO, MAINTENANCE_REISSUE_TIMES[0], MAINTENANCE_REISSUE_TIMES[1]]
        );
        let shown = |time: Duration| Arc::as_ptr(&apid.config(time).0);
        let all: BTreeSet<_> = configs.iter().map(|(from, _)| shown(*from)).collect();
        assert_eq!(all.len(), 3);
        assert_eq!(shown(began + DAY), Arc::as_ptr(&configs[2].1));
    }
}
