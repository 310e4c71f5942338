//! Keys of a cluster, and a server that acts as a configured node or as a node in maintenance mode.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::time_provider::{DefaultTimeProvider, TimeProvider};
use rustls::{RootCertStore, ServerConfig};
use talmox_clock::Clock;
use talmox_talos_api::server::Services;
use talmox_talos_api::{Address, Credentials, Limits, Reach, Settings, node_address};
use talmox_talos_config::client::ClientRole;
use talmox_talos_config::pki::{
    AltName, Authority, AuthorityRequest, Certificate, KeyKind, LeafRequest, Name, PrivateKey,
    Usage, new_authority,
};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secrets::{Bundle, generate_with};
use talmox_talos_config::time::UnixTime;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

pub(crate) const HOST: &str = "10.0.0.11";
pub(crate) const DAY: Duration = Duration::from_hours(24);

pub(crate) fn now() -> UnixTime {
    UnixTime::from_seconds(Clock::real().unix().try_into().unwrap())
}

/// Cluster with its secrets bundle.
pub(crate) struct Cluster(pub(crate) Bundle);

impl Cluster {
    pub(crate) fn new() -> Self {
        let mut randomness = SystemRandomness::new();
        let key = PrivateKey::generate(KeyKind::EcdsaP256, &mut randomness);
        Self(generate_with(&key, now().minus(DAY * 9), &mut randomness).unwrap())
    }

    pub(crate) fn credentials(&self) -> Credentials {
        self.credentials_made(now(), DAY)
    }

    pub(crate) fn credentials_made(&self, at: UnixTime, ttl: Duration) -> Credentials {
        let roles = [ClientRole::Admin];
        Credentials::issue(&self.0, &roles, ttl, at, &mut SystemRandomness::new()).unwrap()
    }

    /// Certificate of a node. It is valid for a day, starting at `from`.
    pub(crate) fn node(&self, host: &str, from: UnixTime) -> (Certificate, PrivateKey) {
        leaf(&self.0.certs.os.authority().unwrap(), host, from)
    }

    /// TLS configuration of a node that requires client certificates of this cluster.
    pub(crate) fn tls_config(&self, host: &str) -> ServerConfig {
        self.tls_config_with(self.node(host, now().minus(DAY / 2)), Arc::new(DefaultTimeProvider))
    }

    pub(crate) fn tls_config_with(
        &self,
        shown: (Certificate, PrivateKey),
        time: Arc<dyn TimeProvider>,
    ) -> ServerConfig {
        let provider = talmox_net::tls::provider();
        let mut roots = RootCertStore::empty();
        let authority = self.0.certs.os.authority().unwrap();
        roots.add(CertificateDer::from(authority.certificate.as_der().to_vec())).unwrap();
        let clients =
            WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider));
        let config = ServerConfig::builder_with_details(provider, time)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients.build().unwrap());
        with_certificate(config, shown)
    }
}

/// TLS configuration of a node in maintenance mode. It accepts any client and has a self-signed certificate.
pub(crate) fn maintenance_tls_config(host: &str) -> ServerConfig {
    let request = AuthorityRequest {
        subject: Name::organization("talos"),
        kind: KeyKind::Ed25519,
        not_before: now().minus(DAY / 2),
        lifetime: DAY,
    };
    let authority = new_authority(&request, &mut SystemRandomness::new()).unwrap();
    let config = talmox_net::tls::server().unwrap().with_no_client_auth();
    with_certificate(config, leaf(&authority, host, now().minus(DAY / 2)))
}

fn leaf(authority: &Authority, host: &str, from: UnixTime) -> (Certificate, PrivateKey) {
    let request = LeafRequest {
        subject: Name { organizations: vec![], common_name: Some("node".to_owned()) },
        alt_names: vec![AltName::Ip(host.parse().unwrap()), AltName::Dns("node".to_owned())],
        usage: Usage::Server,
        key_encipherment: false,
        not_before: from,
        lifetime: DAY,
    };
    authority.issue(&request, &mut SystemRandomness::new()).unwrap()
}

type WantsCertificate = rustls::ConfigBuilder<ServerConfig, rustls::server::WantsServerCert>;

fn with_certificate(
    config: WantsCertificate,
    (certificate, key): (Certificate, PrivateKey),
) -> ServerConfig {
    let chain = vec![CertificateDer::from(certificate.as_der().to_vec())];
    let key = PrivateKeyDer::from_pem_slice(key.to_pkcs8_pem().expose().as_bytes()).unwrap();
    let mut config = config.with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

/// Server on loopback that can close all connections.
pub(crate) struct Server {
    pub(crate) at: SocketAddr,
    cuts: watch::Sender<u32>,
    tls_config: Arc<Mutex<TlsAcceptor>>,
}

impl Server {
    pub(crate) async fn start(tls_config: ServerConfig, services: Services) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let (cuts, cut) = watch::channel(0);
        let tls_config = Arc::new(Mutex::new(TlsAcceptor::from(Arc::new(tls_config))));
        let shown = Arc::clone(&tls_config);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let acceptor = shown.lock().unwrap().clone();
                let (services, mut cut) = (services.clone(), cut.clone());
                cut.mark_unchanged();
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(socket).await else { return };
                    tokio::select! {
                        _ended = services.serve(stream) => {}
                        _cut = cut.changed() => {}
                    }
                });
            }
        });
        Self { at, cuts, tls_config }
    }

    /// Closes all connections immediately.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|count| *count += 1);
    }

    /// Uses another TLS configuration for all later connections.
    pub(crate) fn set_tls_config(&self, tls_config: ServerConfig) {
        *self.tls_config.lock().unwrap() = TlsAcceptor::from(Arc::new(tls_config));
    }

    /// Settings with which [`HOST`] is this server.
    pub(crate) fn settings(&self) -> Settings {
        let mut settings = Settings::new(Clock::real());
        settings.reach = Reach::new([(format!("{HOST}:50000"), self.at.to_string())]);
        settings.limits = Limits { connect: Duration::from_secs(20), ..Limits::default() };
        settings
    }
}

pub(crate) fn host() -> Address {
    node_address(HOST)
}
