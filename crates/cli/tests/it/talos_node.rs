//! Minimal Talos API server on a loopback address, for tests of `talmox node`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use talmox_talos_api::proto::common::Data;
use talmox_talos_api::proto::cosi::resource::state_server::{State, StateServer};
use talmox_talos_api::proto::cosi::resource::{
    GetRequest, GetResponse, ListRequest, ListResponse, Metadata, Resource, Spec,
};
use talmox_talos_api::proto::machine::apply_configuration_request::Mode;
use talmox_talos_api::proto::machine::machine_service_server::{
    MachineService, MachineServiceServer,
};
use talmox_talos_api::proto::machine::*;
use talmox_talos_api::server::{Answered, Asked, Services, Status};
use talmox_talos_config::pki::{
    AltName, Authority, AuthorityRequest, Certificate, KeyKind, LeafRequest, Name, Usage,
    new_authority,
};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secrets::Bundle;
use talmox_talos_config::time::UnixTime;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;
use tonic::codegen::{BoxStream, tokio_stream};

const DAY: Duration = Duration::from_hours(24);

/// Talos node that answers in a thread. It is stopped on drop.
pub(crate) struct TalosNode {
    pub(crate) at: SocketAddr,
    /// Configs that the node received.
    pub(crate) applied: Arc<Mutex<Vec<String>>>,
    /// SMBIOS UUID of the machine, and MAC of its network card.
    pub(crate) machine: Arc<Mutex<(String, String)>>,
    _runtime: Runtime,
}

/// Certificate and behaviour of a node.
pub(crate) struct NodeIdentity {
    authority: Authority,
    /// Certificate authority of accepted clients, if it is not `authority`.
    clients: Option<Authority>,
    from: UnixTime,
    is_open: bool,
    /// Number of connections that are closed before the first connection is answered.
    hang_ups: u32,
    /// Whether the service behind the API has not started yet.
    is_starting: bool,
}

impl NodeIdentity {
    /// Configured node of a new cluster.
    pub(crate) fn configured() -> Self {
        Self {
            authority: authority(),
            clients: None,
            from: now().minus(DAY / 2),
            is_open: false,
            hang_ups: 0,
            is_starting: false,
        }
    }

    /// Configured node of the cluster with these secrets.
    pub(crate) fn of(bundle: &Bundle) -> Self {
        Self { authority: bundle.certs.os.authority().unwrap(), ..Self::configured() }
    }

    pub(crate) fn maintenance() -> Self {
        Self { is_open: true, ..Self::configured() }
    }

    /// Node that closes the first connections without an answer, as during a restart of the API.
    pub(crate) fn hanging_up(self, hang_ups: u32) -> Self {
        Self { hang_ups, ..self }
    }

    /// Node whose API is up, although the service behind the API is not.
    pub(crate) fn starting(self) -> Self {
        Self { is_starting: true, ..self }
    }

    /// Node that accepts only clients of another certificate authority.
    pub(crate) fn for_others(self) -> Self {
        Self { clients: Some(authority()), ..self }
    }

    /// Sets the start of the validity of the certificate. It is valid for one day.
    pub(crate) fn from(self, from: UnixTime) -> Self {
        Self { from, ..self }
    }

    /// talosconfig that the node accepts. It is valid for one day, starting at `from`.
    pub(crate) fn talosconfig(&self, from: UnixTime) -> String {
        let request = LeafRequest {
            subject: Name { organizations: vec!["os:admin".to_owned()], common_name: None },
            alt_names: vec![],
            usage: Usage::Client,
            key_encipherment: false,
            not_before: from,
            lifetime: DAY,
        };
        let (certificate, key) =
            self.authority.issue(&request, &mut SystemRandomness::new()).unwrap();
        let (ca, crt) = (self.authority.certificate.to_pem(), certificate.to_pem());
        let [ca, crt, key] = [&ca, &crt, key.to_pem().expose()].map(|text| base64(text.as_bytes()));
        format!(
            "context: dev\ncontexts:\n    dev:\n        endpoints: []\n        ca: {ca}\n        crt: {crt}\n        key: {key}\n"
        )
    }

    fn server(&self) -> ServerConfig {
        let provider = talmox_net::tls::provider();
        let builder = talmox_net::tls::server().unwrap();
        let builder = if self.is_open {
            builder.with_no_client_auth()
        } else {
            let mut roots = RootCertStore::empty();
            let clients = self.clients.as_ref().unwrap_or(&self.authority);
            roots.add(der(&clients.certificate)).unwrap();
            let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
            builder.with_client_cert_verifier(clients.build().unwrap())
        };
        let request = LeafRequest {
            subject: Name { organizations: vec![], common_name: Some("node".to_owned()) },
            alt_names: ["127.0.0.1", "10.0.0.11"].map(|ip| AltName::Ip(ip.parse().unwrap())).into(),
            usage: Usage::Server,
            key_encipherment: false,
            not_before: self.from,
            lifetime: DAY,
        };
        let (certificate, key) =
            self.authority.issue(&request, &mut SystemRandomness::new()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.to_pkcs8_pem().expose().as_bytes()).unwrap();
        let mut config = builder.with_single_cert(vec![der(&certificate)], key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        config
    }
}

pub(crate) fn now() -> UnixTime {
    std::time::SystemTime::now().into()
}

fn authority() -> Authority {
    let request = AuthorityRequest {
        subject: Name::organization("talos"),
        kind: KeyKind::Ed25519,
        not_before: now().minus(DAY * 9),
        lifetime: DAY * 100,
    };
    new_authority(&request, &mut SystemRandomness::new()).unwrap()
}

fn der(certificate: &Certificate) -> CertificateDer<'static> {
    CertificateDer::from(certificate.as_der().to_vec())
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - group.len()));
        for place in 0..4 {
            let index = usize::try_from(bits >> (18 - 6 * place) & 63).unwrap();
            let is_there = place <= group.len();
            text.push(if is_there { char::from(ALPHABET[index]) } else { '=' });
        }
    }
    text
}

impl TalosNode {
    pub(crate) fn start(identity: &NodeIdentity) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let node = Arc::new(Node { is_starting: identity.is_starting, ..Node::default() });
        let applied = Arc::clone(&node.applied);
        let machine = Arc::clone(&node.machine);
        let cut = Arc::clone(&node.cut);
        let services = Services::builder()
            .with(MachineServiceServer::from_arc(Arc::clone(&node)))
            .with(StateServer::from_arc(node))
            .build();
        let acceptor = TlsAcceptor::from(Arc::new(identity.server()));
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let at = listener.local_addr().unwrap();
        let mut hang_ups = identity.hang_ups;
        runtime.spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                if hang_ups > 0 {
                    hang_ups -= 1;
                    continue;
                }
                let (acceptor, services, cut) =
                    (acceptor.clone(), services.clone(), Arc::clone(&cut));
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(socket).await {
                        tokio::select! {
                            _ = services.serve(stream) => (),
                            () = cut.notified() => (),
                        }
                    }
                });
            }
        });
        Self { at, applied, machine, _runtime: runtime }
    }
}

#[derive(Default)]
struct Node {
    applied: Arc<Mutex<Vec<String>>>,
    machine: Arc<Mutex<(String, String)>>,
    /// Signal that closes the connection.
    cut: Arc<Notify>,
    is_starting: bool,
}

fn stream<T: Send + 'static>(pieces: Vec<T>) -> Answered<BoxStream<T>> {
    Answered::new(Box::pin(tokio_stream::iter(pieces.into_iter().map(Ok))))
}

fn data(text: &str) -> Data {
    Data { bytes: text.as_bytes().to_vec(), metadata: None }
}

#[tonic::async_trait]
impl MachineService for Node {
    async fn service_list(&self, _: Asked<()>) -> Result<Answered<ServiceListResponse>, Status> {
        if self.is_starting {
            return Err(Status::unavailable(
                "connection error: desc = \"transport: Error while dialing: dial unix \
                 /system/run/machined/machine.sock: connect: connection refused\"",
            ));
        }
        let service = |id: &str, state: &str, message: &str, health| ServiceInfo {
            id: id.to_owned(),
            state: state.to_owned(),
            events: Some(ServiceEvents {
                events: vec![ServiceEvent {
                    msg: message.to_owned(),
                    state: state.to_owned(),
                    ts: None,
                }],
            }),
            health: Some(health),
        };
        let good = ServiceHealth { healthy: true, ..ServiceHealth::default() };
        let none = ServiceHealth { unknown: true, ..ServiceHealth::default() };
        let services = vec![
            service("etcd", "Preparing", "Running pre state", none),
            service("kubelet", "Running", "Health check successful", good),
        ];
        let list = ServiceList { services, metadata: None };
        Ok(Answered::new(ServiceListResponse { messages: vec![list] }))
    }

    async fn logs(&self, request: Asked<LogsRequest>) -> Result<Answered<BoxStream<Data>>, Status> {
        let LogsRequest { namespace, id, tail_lines, follow, .. } = request.into_inner();
        if id.contains("none") {
            let is_service = namespace == "system";
            return Err(Status::unknown(if is_service {
                format!("log \"{id}\" was not registered")
            } else {
                format!("container \"{id}\" not found")
            }));
        }
        Ok(stream(vec![
            data(&format!("{namespace} {id}\n")),
            data(&format!("{tail_lines} {follow}\n")),
        ]))
    }

    /// With `follow`, the connection is closed, as at a shutdown of the node.
    async fn dmesg(&self, asked: Asked<DmesgRequest>) -> Result<Answered<BoxStream<Data>>, Status> {
        if asked.into_inner().follow {
            self.cut.notify_one();
            return Ok(Answered::new(Box::pin(tokio_stream::pending())));
        }
        Ok(stream(vec![data("kern: info: Linux version 6.18\n")]))
    }

    async fn apply_configuration(
        &self,
        request: Asked<ApplyConfigurationRequest>,
    ) -> Result<Answered<ApplyConfigurationResponse>, Status> {
        let request = request.into_inner();
        let config = String::from_utf8(request.data.clone()).unwrap();
        if config.contains("bad") {
            return Err(Status::invalid_argument(
                "configuration validation failed: 1 error occurred",
            ));
        }
        self.applied.lock().unwrap().push(format!(
            "{:?} {} {config}",
            request.mode(),
            request.dry_run
        ));
        let applied = match request.mode() {
            // Up to Talos 1.12, the answer of a node in maintenance mode has no mode.
            _ if config.contains("old") => ApplyConfiguration::default(),
            Mode::NoReboot | Mode::Try if config.contains("reboot") => {
                return Err(Status::invalid_argument(format!(
                    "this config change can't be applied in immediate mode\ndiff:\n+ {config}"
                )));
            }
            mode => ApplyConfiguration {
                warnings: vec!["too little memory".to_owned()],
                mode: match mode {
                    Mode::Auto | Mode::Reboot => Mode::NoReboot,
                    other => other,
                }
                .into(),
                mode_details: format!("diff: {config}"),
                metadata: None,
            },
        };
        let messages = vec![applied];
        Ok(Answered::new(ApplyConfigurationResponse { messages }))
    }
}

/// Resource definition with the table columns for members.
const MEMBERS: &str = "\
type: Members.cluster.talos.dev
displayType: Member
printColumns:
    - name: Hostname
      jsonPath: '{.hostname}'
    - name: Addresses
      jsonPath: '{.addresses}'
";

fn resource(namespace: &str, kind: &str, id: &str, yaml: &str) -> Resource {
    Resource {
        metadata: Some(Metadata {
            namespace: namespace.to_owned(),
            r#type: kind.to_owned(),
            id: id.to_owned(),
            version: "3".to_owned(),
            phase: "running".to_owned(),
            owner: match id {
                "many" => String::new(),
                _ => "runtime.MachineStatusController".to_owned(),
            },
            created: Some((UNIX_EPOCH + Duration::from_millis(1_767_225_600_005)).into()),
            updated: Some((UNIX_EPOCH + Duration::from_mins(29_453_761)).into()),
            labels: match id {
                "machine" => BTreeMap::from([("talos.dev/a".to_owned(), "b".to_owned())]),
                _ => BTreeMap::new(),
            },
            annotations: BTreeMap::new(),
            finalizers: match id {
                "machine" => vec!["runtime.OtherController".to_owned()],
                _ => vec![],
            },
        }),
        spec: Some(Spec { yaml_spec: yaml.to_owned(), proto_spec: vec![] }),
    }
}

#[tonic::async_trait]
impl State for Node {
    async fn get(&self, request: Asked<GetRequest>) -> Result<Answered<GetResponse>, Status> {
        let GetRequest { namespace, r#type: kind, id, .. } = request.into_inner();
        let uuid = format!("uuid: {}\n", self.machine.lock().unwrap().0);
        let yaml = match (kind.as_str(), id.as_str()) {
            ("SystemInformations.hardware.talos.dev", _) => uuid.as_str(),
            ("MachineStatuses.runtime.talos.dev", "machine") => {
                "stage: running\nstatus:\n    ready: true\n    unmetConditions: []\n"
            }
            ("ResourceDefinitions.meta.cosi.dev", "members.cluster.talos.dev") => MEMBERS,
            ("MachineStatuses.runtime.talos.dev", "many") => "stage: booting\n---\nkind: More\n",
            ("MachineConfigs.config.talos.dev", _) => {
                return Err(Status::permission_denied("not authorized"));
            }
            _ => return Err(Status::not_found("resource doesn't exist")),
        };
        let resource = resource(&namespace, &kind, &id, yaml);
        Ok(Answered::new(GetResponse { resource: Some(resource) }))
    }

    async fn list(
        &self,
        request: Asked<ListRequest>,
    ) -> Result<Answered<BoxStream<ListResponse>>, Status> {
        let ListRequest { namespace, r#type: kind, .. } = request.into_inner();
        let card = format!("type: ether\nhardwareAddr: {}\n", self.machine.lock().unwrap().1);
        let found: &[(&str, &str)] = match kind.as_str() {
            "LinkStatuses.net.talos.dev" => &[("eth0", &card)],
            "ResourceDefinitions.meta.cosi.dev" => &[
                (
                    "etcdspecs.etcd.talos.dev",
                    "type: EtcdSpecs.etcd.talos.dev\ndefaultNamespace: etcd\nallAliases: [etcdspecs, es]\n",
                ),
                (
                    "extensionservices.x.talos.dev",
                    "type: ExtensionServices.x.talos.dev\ndefaultNamespace: runtime\nallAliases: [es]\n",
                ),
            ],
            "Members.cluster.talos.dev" => &[
                ("cp-1", "nodeId: a\naddresses:\n    - 10.0.0.11\nhostname: cp-1\n"),
                ("wk-1", "nodeId: b\naddresses:\n    - 10.0.0.21\nhostname: wk-1\n"),
            ],
            "EtcdSpecs.etcd.talos.dev" => &[("etcd", "name: cp-1\n")],
            _ => {
                let text = format!("resource type \"{kind}\" is not supported");
                return Err(Status::permission_denied(text));
            }
        };
        let found = found
            .iter()
            .map(|(id, yaml)| ListResponse {
                resource: Some(resource(&namespace, &kind, id, yaml)),
            })
            .collect();
        Ok(stream(found))
    }
}
