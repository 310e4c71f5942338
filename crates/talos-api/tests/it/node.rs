//! Simulated node with scripted answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use prost::Message;
use talmox_clock::Clock;
use talmox_talos_api::proto::common::Data;
use talmox_talos_api::proto::cosi::resource::state_server::{State, StateServer};
use talmox_talos_api::proto::cosi::resource::{
    Event as StateEvent, EventType, GetRequest, GetResponse, ListRequest, ListResponse, Metadata,
    Resource, Spec, WatchRequest, WatchResponse,
};
use talmox_talos_api::proto::machine::machine_service_server::{
    MachineService, MachineServiceServer,
};
use talmox_talos_api::proto::machine::*;
use talmox_talos_api::server::{Answered, Asked, Services, Status, Streaming};
use tokio::sync::mpsc;
use tonic::codegen::{BoxStream, tokio_stream};

pub(crate) const KEY: &str = "LS0tLS1CRUdJTiBFRDI1NTE5IFBSSVZBVEUgS0VZ";

/// State that a test can inspect.
#[derive(Default)]
pub(crate) struct Node {
    pub(crate) bootstraps: AtomicUsize,
    pub(crate) recovered: AtomicUsize,
}

/// Services of a node with Talos 1.12.
pub(crate) fn services(node: &Arc<Node>) -> Services {
    let machine =
        MachineServiceServer::from_arc(Arc::clone(node)).max_encoding_message_size(64 << 20);
    Services::builder().with(machine).with(StateServer::from_arc(Arc::clone(node))).build()
}

/// Stream that sends these messages and then stays open without further messages.
pub(crate) fn stream_that_stays_open<T: Send + 'static>(pieces: Vec<T>) -> BoxStream<T> {
    let (sender, receiver) = mpsc::channel(pieces.len().max(1));
    for piece in pieces {
        assert!(sender.try_send(Ok(piece)).is_ok());
    }
    tokio::spawn(async move {
        Clock::real().sleep(Duration::from_mins(10)).await;
        drop(sender);
    });
    Box::pin(FromChannel(receiver))
}

struct FromChannel<T>(mpsc::Receiver<T>);

impl<T> tokio_stream::Stream for FromChannel<T> {
    type Item = T;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<T>> {
        self.0.poll_recv(context)
    }
}

pub(crate) fn pieces<T: Send + 'static>(pieces: Vec<T>) -> BoxStream<T> {
    Box::pin(tokio_stream::iter(pieces.into_iter().map(Ok)))
}

fn data(bytes: &[u8]) -> Data {
    Data { bytes: bytes.to_vec(), metadata: None }
}

pub(crate) fn event<M: Message>(id: &str, name: &str, message: &M) -> Event {
    Event {
        id: id.to_owned(),
        actor_id: "actor".to_owned(),
        data: Some(prost_types::Any {
            type_url: format!("talos/runtime/machine.{name}"),
            value: message.encode_to_vec(),
        }),
        metadata: None,
    }
}

#[tonic::async_trait]
impl MachineService for Node {
    async fn version(&self, _: Asked<()>) -> Result<Answered<VersionResponse>, Status> {
        let version = VersionInfo {
            tag: "v1.13.6".to_owned(),
            arch: "amd64".to_owned(),
            ..VersionInfo::default()
        };
        let messages = vec![Version { version: Some(version), ..Version::default() }];
        Ok(Answered::new(VersionResponse { messages }))
    }

    /// The first request gets `NotYet`, the second one succeeds, and further requests are rejected.
    async fn bootstrap(
        &self,
        _: Asked<BootstrapRequest>,
    ) -> Result<Answered<BootstrapResponse>, Status> {
        match self.bootstraps.fetch_add(1, Ordering::SeqCst) {
            0 => Err(Status::failed_precondition("time is not in sync yet")),
            1 => Ok(Answered::new(BootstrapResponse::default())),
            _ => Err(Status::already_exists("etcd data directory is not empty")),
        }
    }

    async fn apply_configuration(
        &self,
        request: Asked<ApplyConfigurationRequest>,
    ) -> Result<Answered<ApplyConfigurationResponse>, Status> {
        let request = request.into_inner();
        if request.mode() == apply_configuration_request::Mode::NoReboot {
            let message =
                format!("this config change can't be applied in immediate mode\ndiff: +key: {KEY}");
            return Err(Status::invalid_argument(message));
        }
        let messages = vec![ApplyConfiguration {
            warnings: vec![format!("{KEY} is old")],
            mode: apply_configuration_request::Mode::NoReboot.into(),
            mode_details: String::from_utf8_lossy(&request.data).into_owned(),
            metadata: None,
        }];
        Ok(Answered::new(ApplyConfigurationResponse { messages }))
    }

    async fn service_list(&self, _: Asked<()>) -> Result<Answered<ServiceListResponse>, Status> {
        let said = |state: &str, msg: &str| ServiceEvents {
            events: vec![ServiceEvent { state: state.to_owned(), msg: msg.to_owned(), ts: None }],
        };
        let is_bootstrapped = self.bootstraps.load(Ordering::SeqCst) > 1;
        let etcd =
            if is_bootstrapped { ("Running", "") } else { ("Preparing", "no bootstrap yet") };
        let good = ServiceHealth { healthy: true, ..ServiceHealth::default() };
        let services = [("etcd", etcd), ("kubelet", ("Running", "Health check successful"))];
        let services = services.map(|(id, (state, message))| ServiceInfo {
            id: id.to_owned(),
            state: state.to_owned(),
            events: Some(said(state, message)),
            health: Some(if state == "Running" {
                good.clone()
            } else {
                ServiceHealth { unknown: true, ..ServiceHealth::default() }
            }),
        });
        let list = ServiceList { services: services.to_vec(), metadata: None };
        Ok(Answered::new(ServiceListResponse { messages: vec![list] }))
    }

    async fn memory(&self, _: Asked<()>) -> Result<Answered<MemoryResponse>, Status> {
        let meminfo = Some(MemInfo { memtotal: 4 << 20, ..MemInfo::default() });
        Ok(Answered::new(MemoryResponse { messages: vec![Memory { meminfo, metadata: None }] }))
    }

    /// Never returns.
    async fn etcd_defragment(
        &self,
        _: Asked<()>,
    ) -> Result<Answered<EtcdDefragmentResponse>, Status> {
        std::future::pending().await
    }

    /// Sends only half of the snapshot.
    async fn etcd_snapshot(
        &self,
        _: Asked<EtcdSnapshotRequest>,
    ) -> Result<Answered<BoxStream<Data>>, Status> {
        Ok(Answered::new(stream_that_stays_open(vec![data(&[7; 2048])])))
    }

    async fn etcd_recover(
        &self,
        request: Asked<Streaming<Data>>,
    ) -> Result<Answered<EtcdRecoverResponse>, Status> {
        let mut request = request.into_inner();
        while let Some(data) = request.message().await? {
            self.recovered.fetch_add(data.bytes.len(), Ordering::SeqCst);
        }
        Ok(Answered::new(EtcdRecoverResponse::default()))
    }

    async fn events(&self, _: Asked<EventsRequest>) -> Result<Answered<BoxStream<Event>>, Status> {
        let status = MachineStatusEvent {
            stage: machine_status_event::MachineStage::Running.into(),
            status: None,
        };
        let service =
            ServiceStateEvent { service: "etcd".to_owned(), ..ServiceStateEvent::default() };
        Ok(Answered::new(stream_that_stays_open(vec![
            event("1", "MachineStatusEvent", &status),
            event("2", "ServiceStateEvent", &service),
            event("3", "FutureEvent", &status),
        ])))
    }

    async fn read(&self, request: Asked<ReadRequest>) -> Result<Answered<BoxStream<Data>>, Status> {
        match request.into_inner().path.as_str() {
            // This message is larger than the default limit of gRPC.
            "/big" => Ok(Answered::new(pieces(vec![data(&vec![1; 20 << 20])]))),
            "/too-big" => Ok(Answered::new(pieces(vec![data(&vec![1; 33 << 20])]))),
            "/proc/sys/kernel/random/boot_id" => {
                Ok(Answered::new(pieces(vec![data(b"ab"), data(b"cd\n")])))
            }
            "/not-there-and-older" => Err(Status::unknown("stat: no such file or directory")),
            _ => Err(Status::not_found("it is not there")),
        }
    }
}

fn resource(kind: &str, id: &str, yaml: &str) -> Resource {
    Resource {
        metadata: Some(Metadata {
            r#type: kind.to_owned(),
            id: id.to_owned(),
            version: "1".to_owned(),
            phase: "running".to_owned(),
            ..Metadata::default()
        }),
        spec: Some(Spec { yaml_spec: yaml.to_owned(), proto_spec: vec![] }),
    }
}

#[tonic::async_trait]
impl State for Node {
    async fn get(&self, request: Asked<GetRequest>) -> Result<Answered<GetResponse>, Status> {
        let request = request.into_inner();
        let yaml = match request.r#type.as_str() {
            "SystemInformations.hardware.talos.dev" => {
                "manufacturer: QEMU\nserialnumber: \"\"\nuuid: 4c4c4544-0042-3510-8051-b4c04f333732\n"
            }
            "PlatformMetadatas.talos.dev" => {
                "platform: nocloud\nhostname: talos-cp-01\ninstanceId: 1d3f\n"
            }
            "MachineStatuses.runtime.talos.dev" => {
                "stage: booting\nstatus:\n    ready: false\n    unmetConditions:\n        - name: services\n          reason: etcd not healthy\n"
            }
            "VolumeStatuses.block.talos.dev" => "phase: ready\nsize: 34359738368\n",
            "TimeStatuses.v1alpha1.talos.dev" => "synced: false\nepoch: 0\n",
            "MachineConfigs.config.talos.dev" => return Err(Status::permission_denied("no")),
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
        if kind.starts_with("Diagnostics") {
            return Err(Status::permission_denied(format!(
                "resource type \"{kind}\" is not supported"
            )));
        }
        let links = [
            ("lo", "type: loopback\nkind: \"\"\nhardwareAddr: \"00:00:00:00:00:00\"\n"),
            ("dummy0", "type: ether\nkind: dummy\nhardwareAddr: \"5e:00:00:00:00:01\"\n"),
            (
                "eth0",
                "type: ether\nkind: \"\"\nhardwareAddr: \"BC:24:11:00:00:01\"\npermanentAddr: \"BC:24:11:00:00:01\"\n",
            ),
        ];
        let found = links
            .map(|(id, yaml)| ListResponse { resource: Some(resource(&kind, id, yaml)) })
            .to_vec();
        Ok(Answered::new(pieces(found)))
    }

    async fn watch(
        &self,
        request: Asked<WatchRequest>,
    ) -> Result<Answered<BoxStream<WatchResponse>>, Status> {
        let request = request.into_inner();
        let one = |kind: EventType, yaml: &str| StateEvent {
            resource: Some(resource(&request.r#type, "machine", yaml)),
            event_type: kind.into(),
            ..StateEvent::default()
        };
        let both = WatchResponse {
            event: vec![one(EventType::Created, "stage: booting\n"), one(EventType::Noop, "")],
        };
        let last = WatchResponse {
            event: vec![one(
                EventType::Updated,
                "stage: running\nstatus:\n    ready: true\n    unmetConditions: []\n",
            )],
        };
        Ok(Answered::new(stream_that_stays_open(vec![both, last])))
    }
}
