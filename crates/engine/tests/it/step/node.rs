//! A simulated Talos node in maintenance mode or with a config, built from the server stubs of the Talos API.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use prost::Message as _;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use talmox_clock::Clock;
use talmox_net::{authorities, tls};
use talmox_talos_api::proto::common::Data;
use talmox_talos_api::proto::cosi::resource::state_server::{State, StateServer};
use talmox_talos_api::proto::cosi::resource::{
    GetRequest, GetResponse, ListRequest, ListResponse, Metadata, Resource, Spec,
};
use talmox_talos_api::proto::machine::machine_service_server::{
    MachineService, MachineServiceServer,
};
use talmox_talos_api::proto::machine::*;
use talmox_talos_api::server::{Answered, Asked, Services, Status};
use talmox_talos_config::pki::{
    AltName, Authority, AuthorityRequest, KeyKind, LeafRequest, Name, Usage, new_authority,
};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secrets::Bundle;
use talmox_talos_config::time::UnixTime;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tonic::codegen::tokio_stream::StreamExt as _;
use tonic::codegen::{BoxStream, tokio_stream};

/// State of etcd on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Etcd {
    Nothing,
    /// etcd has data but does not run.
    Data,
    /// etcd was bootstrapped, and the node does not show that yet.
    Bootstrapped,
    /// etcd was bootstrapped, and its image is being pulled. There is no data yet.
    Pulling,
    /// etcd was bootstrapped, and its service failed. There is no data.
    Failed,
    /// The service of etcd runs, but etcd does not answer.
    Silent,
    Member,
}

/// Answers of a node, and the requests that it received.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) is_configured: bool,
    pub(crate) uuid: String,
    pub(crate) mac: String,
    pub(crate) instance_id: String,
    pub(crate) hostname: String,
    /// Addresses of the only network card, with the prefix length.
    pub(crate) addresses: Vec<String>,
    pub(crate) node_ip: String,
    pub(crate) etcd: Etcd,
    /// The boot ID. It differs for each boot.
    pub(crate) boot_id: String,
    /// State of etcd after a bootstrap.
    pub(crate) bootstrapped: Etcd,
    /// Number of next bootstrap requests that are rejected because the time is not in sync.
    pub(crate) not_yet: u32,
    /// Whether the node reports that its time is in sync. None if it reports nothing about its time.
    pub(crate) synced: Option<bool>,
    pub(crate) bootstraps: u32,
    /// The boot in which a bootstrap was accepted.
    pub(crate) requested_in: Option<String>,
    /// Number of bootstrap requests that were rejected because etcd has data.
    pub(crate) rejections: u32,
    pub(crate) applied: Vec<String>,
    /// The modes in which configs were applied.
    pub(crate) modes: Vec<apply_configuration_request::Mode>,
    /// The config in use and the config on the disk. None if the node does not report configs. An empty config is not
    /// reported.
    pub(crate) configs: Option<[String; 2]>,
    /// Whether the node never answers a request that applies a config.
    pub(crate) never_answers_apply: bool,
    /// Whether the node reports its version only after it has a config.
    pub(crate) hides_version: bool,
}

#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) at: SocketAddr,
    facts: Arc<Mutex<Facts>>,
}

const DAY: Duration = Duration::from_hours(24);

impl Node {
    /// Starts a node with this address and these facts. Its certificates come from this bundle after it has a config.
    pub(crate) async fn start(address: &str, bundle: &Bundle, facts: Facts) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::serve(listener, address, bundle, facts)
    }

    pub(crate) fn serve(
        listener: TcpListener,
        address: &str,
        bundle: &Bundle,
        facts: Facts,
    ) -> Self {
        let at = listener.local_addr().unwrap();
        let node = Self { at, facts: Arc::new(Mutex::new(facts)) };
        let (maintenance, configured) = (maintenance(address), configured(address, bundle));
        let services = Services::builder()
            .with(MachineServiceServer::new(node.clone()))
            .with(StateServer::new(node.clone()))
            .build();
        let this = node.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let tls = if this.facts().is_configured { &configured } else { &maintenance };
                let (acceptor, services) = (TlsAcceptor::from(Arc::clone(tls)), services.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(socket).await else { return };
                    // Errors of a connection are ignored here, because the client detects them.
                    services.serve(stream).await.ok();
                });
            }
        });
        node
    }

    pub(crate) fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap()
    }
}

fn now() -> UnixTime {
    UnixTime::from_seconds(Clock::real().unix().try_into().unwrap())
}

fn maintenance(address: &str) -> Arc<ServerConfig> {
    let request = AuthorityRequest {
        subject: Name::organization("talos"),
        kind: KeyKind::Ed25519,
        not_before: now().minus(DAY / 2),
        lifetime: DAY * 2,
    };
    let authority = new_authority(&request, &mut SystemRandomness::new()).unwrap();
    let config = tls::server().unwrap().with_no_client_auth();
    with_certificate(config, &authority, address)
}

fn configured(address: &str, bundle: &Bundle) -> Arc<ServerConfig> {
    let authority = bundle.certs.os.authority().unwrap();
    let roots = authorities::from_der(authority.certificate.as_der()).unwrap();
    let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), tls::provider());
    let config = tls::server().unwrap().with_client_cert_verifier(clients.build().unwrap());
    with_certificate(config, &authority, address)
}

fn with_certificate(
    config: rustls::ConfigBuilder<ServerConfig, rustls::server::WantsServerCert>,
    authority: &Authority,
    address: &str,
) -> Arc<ServerConfig> {
    let request = LeafRequest {
        subject: Name { organizations: vec![], common_name: Some("node".to_owned()) },
        alt_names: vec![AltName::Ip(address.parse().unwrap())],
        usage: Usage::Server,
        key_encipherment: false,
        not_before: now().minus(DAY / 2),
        lifetime: DAY * 2,
    };
    let (certificate, key) = authority.issue(&request, &mut SystemRandomness::new()).unwrap();
    let chain = vec![CertificateDer::from(certificate.as_der().to_vec())];
    let key = PrivateKeyDer::from_pem_slice(key.to_pkcs8_pem().expose().as_bytes()).unwrap();
    let mut config = config.with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

fn service_event(action: service_state_event::Action, message: &str) -> ServiceStateEvent {
    ServiceStateEvent {
        service: "etcd".to_owned(),
        action: action.into(),
        message: message.to_owned(),
        health: None,
    }
}

fn pieces<T: Send + 'static>(pieces: Vec<T>) -> BoxStream<T> {
    Box::pin(tokio_stream::iter(pieces.into_iter().map(Ok)))
}

#[tonic::async_trait]
impl MachineService for Node {
    async fn version(&self, _: Asked<()>) -> Result<Answered<VersionResponse>, Status> {
        if self.facts().hides_version && !self.facts().is_configured {
            return Err(Status::unimplemented("API is not implemented in maintenance mode"));
        }
        let version = VersionInfo { tag: "v1.11.2".to_owned(), ..VersionInfo::default() };
        let messages = vec![Version { version: Some(version), ..Version::default() }];
        Ok(Answered::new(VersionResponse { messages }))
    }

    async fn hostname(&self, _: Asked<()>) -> Result<Answered<HostnameResponse>, Status> {
        let hostname = self.facts().hostname.clone();
        Ok(Answered::new(HostnameResponse {
            messages: vec![Hostname { hostname, metadata: None }],
        }))
    }

    async fn apply_configuration(
        &self,
        request: Asked<ApplyConfigurationRequest>,
    ) -> Result<Answered<ApplyConfigurationResponse>, Status> {
        use apply_configuration_request::Mode;
        let request = request.into_inner();
        let mode = request.mode();
        let text = String::from_utf8(request.data).unwrap();
        if text == "bad" {
            return Err(Status::invalid_argument("configuration validation failed: it is bad"));
        }
        if self.facts().never_answers_apply {
            std::future::pending::<()>().await;
        }
        let mut facts = self.facts();
        if let Some([in_use, on_disk]) = &mut facts.configs {
            if mode != Mode::Staged {
                in_use.clone_from(&text);
            }
            if mode != Mode::Try {
                on_disk.clone_from(&text);
            }
        }
        facts.modes.push(mode);
        facts.applied.push(text);
        facts.is_configured = true;
        let messages = vec![ApplyConfiguration::default()];
        Ok(Answered::new(ApplyConfigurationResponse { messages }))
    }

    async fn bootstrap(
        &self,
        _: Asked<BootstrapRequest>,
    ) -> Result<Answered<BootstrapResponse>, Status> {
        let mut facts = self.facts();
        if facts.not_yet > 0 {
            facts.not_yet -= 1;
            return Err(Status::failed_precondition("time is not in sync yet"));
        }
        if facts.etcd == Etcd::Bootstrapped {
            facts.etcd = Etcd::Member;
        }
        if !matches!(facts.etcd, Etcd::Nothing | Etcd::Pulling | Etcd::Failed) {
            facts.rejections += 1;
            return Err(Status::already_exists("etcd data directory is not empty"));
        }
        facts.bootstraps += 1;
        facts.etcd = facts.bootstrapped;
        facts.requested_in = Some(facts.boot_id.clone());
        Ok(Answered::new(BootstrapResponse::default()))
    }

    async fn etcd_member_list(
        &self,
        _: Asked<EtcdMemberListRequest>,
    ) -> Result<Answered<EtcdMemberListResponse>, Status> {
        let facts = self.facts().clone();
        // As on real nodes, the etcd client of Talos waits for a connection until the caller's timeout.
        if facts.etcd != Etcd::Member {
            return std::future::pending().await;
        }
        let member = EtcdMember { hostname: facts.hostname.clone(), ..EtcdMember::default() };
        let messages = vec![EtcdMembers { members: vec![member], ..EtcdMembers::default() }];
        Ok(Answered::new(EtcdMemberListResponse { messages }))
    }

    async fn etcd_status(&self, _: Asked<()>) -> Result<Answered<EtcdStatusResponse>, Status> {
        let status = EtcdMemberStatus {
            member_id: 5,
            leader: 5,
            db_size: 4096,
            ..EtcdMemberStatus::default()
        };
        let messages = vec![EtcdStatus { member_status: Some(status), metadata: None }];
        Ok(Answered::new(EtcdStatusResponse { messages }))
    }

    async fn service_list(&self, _: Asked<()>) -> Result<Answered<ServiceListResponse>, Status> {
        let is_member = matches!(self.facts().etcd, Etcd::Member | Etcd::Silent);
        let pulling = ServiceEvent {
            msg: "Running pre state".to_owned(),
            state: "Preparing".to_owned(),
            ..ServiceEvent::default()
        };
        let service = |id: &str, is_up: bool| ServiceInfo {
            id: id.to_owned(),
            state: if is_up { "Running" } else { "Preparing" }.to_owned(),
            events: (!is_up).then(|| ServiceEvents { events: vec![pulling.clone()] }),
            health: is_up.then(|| ServiceHealth { healthy: true, ..ServiceHealth::default() }),
        };
        let services = vec![service("etcd", is_member), service("kubelet", true)];
        let messages = vec![ServiceList { services, metadata: None }];
        Ok(Answered::new(ServiceListResponse { messages }))
    }

    /// Returns an empty first event, then the events of this boot. The stream stays open.
    async fn events(
        &self,
        request: Asked<EventsRequest>,
    ) -> Result<Answered<BoxStream<Event>>, Status> {
        use service_state_event::Action;
        let facts = self.facts().clone();
        let mut past = vec![service_event(Action::Preparing, "Running pre state")];
        if facts.requested_in.as_ref() == Some(&facts.boot_id) {
            past.push(service_event(Action::Finished, "Bootstrap requested"));
            past.push(service_event(Action::Preparing, "Running pre state"));
        }
        if facts.etcd == Etcd::Failed {
            past.push(service_event(Action::Failed, "Failed to run pre stage: no image"));
        }
        let mut past: Vec<Event> = (0..)
            .zip(past)
            .map(|(id, event): (u32, ServiceStateEvent)| Event {
                id: format!("{id}"),
                data: Some(prost_types::Any {
                    type_url: "talos/runtime/machine.ServiceStateEvent".to_owned(),
                    value: event.encode_to_vec(),
                }),
                ..Event::default()
            })
            .collect();
        if request.into_inner().tail_events == 1 {
            past.drain(..past.len() - 1);
        }
        past.insert(0, Event { data: Some(prost_types::Any::default()), ..Event::default() });
        let past = tokio_stream::iter(past.into_iter().map(Ok));
        Ok(Answered::new(Box::pin(past.chain(tokio_stream::pending()))))
    }

    async fn memory(&self, _: Asked<()>) -> Result<Answered<MemoryResponse>, Status> {
        let meminfo = Some(MemInfo { memtotal: 4 << 20, ..MemInfo::default() });
        Ok(Answered::new(MemoryResponse { messages: vec![Memory { meminfo, metadata: None }] }))
    }

    async fn read(&self, request: Asked<ReadRequest>) -> Result<Answered<BoxStream<Data>>, Status> {
        let path = request.into_inner().path;
        if path == "/var/lib/etcd/member/snap/db"
            && matches!(self.facts().etcd, Etcd::Data | Etcd::Member)
        {
            return Ok(Answered::new(pieces(vec![Data { bytes: vec![0; 512], metadata: None }])));
        }
        if path == "/proc/sys/kernel/random/boot_id" {
            let bytes = self.facts().boot_id.clone().into_bytes();
            return Ok(Answered::new(pieces(vec![Data { bytes, metadata: None }])));
        }
        Err(Status::not_found(format!("stat {path}: no such file or directory")))
    }
}

fn resource(kind: &str, id: &str, yaml: String) -> Resource {
    let metadata = Metadata { r#type: kind.to_owned(), id: id.to_owned(), ..Metadata::default() };
    Resource { metadata: Some(metadata), spec: Some(Spec { yaml_spec: yaml, proto_spec: vec![] }) }
}

#[tonic::async_trait]
impl State for Node {
    async fn get(&self, request: Asked<GetRequest>) -> Result<Answered<GetResponse>, Status> {
        let request = request.into_inner();
        let facts = self.facts().clone();
        let yaml = match request.r#type.as_str() {
            "SystemInformations.hardware.talos.dev" => format!("uuid: {}\n", facts.uuid),
            "PlatformMetadatas.talos.dev" => format!("instanceId: {}\n", facts.instance_id),
            "MachineStatuses.runtime.talos.dev" => "stage: running\n".to_owned(),
            "VolumeStatuses.block.talos.dev" => "size: 34359738368\n".to_owned(),
            "TimeStatuses.v1alpha1.talos.dev" => match facts.synced {
                Some(synced) => format!("synced: {synced}\n"),
                None => return Err(Status::not_found("resource doesn't exist")),
            },
            // The config "wrong" has no default route.
            "NetworkStatuses.net.talos.dev" => {
                let in_use = facts.configs.as_ref().map(|[in_use, _]| in_use.as_str());
                format!("addressReady: true\nconnectivityReady: {}\n", in_use != Some("wrong"))
            }
            "StaticPods.kubernetes.talos.dev" => format!("metadata:\n    name: {}\n", request.id),
            "NodeIPs.kubernetes.talos.dev" => format!("addresses:\n    - {}\n", facts.node_ip),
            "MachineConfigs.config.talos.dev" if request.id == "v1alpha1" => match facts.configs {
                Some([in_use, _]) => in_use,
                None => return Err(Status::not_found("resource doesn't exist")),
            },
            _ => return Err(Status::not_found("resource doesn't exist")),
        };
        let resource = resource(&request.r#type, &request.id, yaml);
        Ok(Answered::new(GetResponse { resource: Some(resource) }))
    }

    async fn list(
        &self,
        request: Asked<ListRequest>,
    ) -> Result<Answered<BoxStream<ListResponse>>, Status> {
        let kind = request.into_inner().r#type;
        let facts = self.facts().clone();
        let all = match kind.as_str() {
            "LinkStatuses.net.talos.dev" => vec![
                ("lo".to_owned(), "type: loopback\n".to_owned()),
                ("eth0".to_owned(), format!("type: ether\nhardwareAddr: \"{}\"\n", facts.mac)),
                ("cni0".to_owned(), "type: ether\nkind: bridge\n".to_owned()),
            ],
            "AddressStatuses.net.talos.dev" => {
                let own = facts.addresses.iter().map(|address| ("eth0", address.as_str()));
                let all = own.chain([("cni0", "10.244.0.1/24"), ("lo", "127.0.0.1/8")]);
                let one = |(link, address): (&str, &str)| {
                    let scope = if link == "lo" { "host" } else { "global" };
                    let yaml = format!("address: {address}\nlinkName: {link}\nscope: {scope}\n");
                    (format!("{link}/{address}"), yaml)
                };
                all.map(one).collect()
            }
            "MachineConfigs.config.talos.dev" => {
                let ids = ["v1alpha1", "persistent"].map(str::to_owned);
                let all = ids.into_iter().zip(facts.configs.into_iter().flatten());
                all.filter(|(_, text)| !text.is_empty()).collect()
            }
            _ => vec![],
        };
        let found = all
            .into_iter()
            .map(|(id, yaml)| ListResponse { resource: Some(resource(&kind, &id, yaml)) });
        Ok(Answered::new(pieces(found.collect())))
    }
}
