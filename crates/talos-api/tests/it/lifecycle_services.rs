//! Tests of the services of Talos 1.13 and later, and of copying files from nodes.

use std::io::Write as _;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use talmox_talos_api::client::{self, LogSource, PullStep, Step};
use talmox_talos_api::proto::cluster::cluster_service_server::{
    ClusterService, ClusterServiceServer,
};
use talmox_talos_api::proto::cluster::{HealthCheckProgress, HealthCheckRequest};
use talmox_talos_api::proto::common::{ContainerdNamespace, Data};
use talmox_talos_api::proto::machine::image_service_server::{ImageService, ImageServiceServer};
use talmox_talos_api::proto::machine::lifecycle_service_install_progress::Response as Progress;
use talmox_talos_api::proto::machine::lifecycle_service_server::{
    LifecycleService, LifecycleServiceServer,
};
use talmox_talos_api::proto::machine::machine_service_server::{
    MachineService, MachineServiceServer,
};
use talmox_talos_api::proto::machine::*;
use talmox_talos_api::server::{Answered, Asked, Services, Status};
use talmox_talos_api::{Client, Code, Credentials, TalosError, upgrade};
use talmox_talos_config::client::ClientRole;
use tonic::codegen::{BoxStream, tokio_stream};

use crate::fixture::{Cluster, HOST, Server, host};
use crate::node::pieces;

#[derive(Clone, Copy)]
struct NodeWithLifecycleServices;

async fn lifecycle_node() -> (Server, Client) {
    let cluster = Cluster::new();
    let services = Services::builder()
        .with(MachineServiceServer::new(NodeWithLifecycleServices))
        .with(LifecycleServiceServer::new(NodeWithLifecycleServices))
        .with(ImageServiceServer::new(NodeWithLifecycleServices))
        .with(ClusterServiceServer::new(NodeWithLifecycleServices))
        .build();
    let server = Server::start(cluster.tls_config(HOST), services).await;
    let client = Client::new(host(), &cluster.credentials(), &server.settings()).unwrap();
    (server, client)
}

fn data(bytes: &[u8]) -> Data {
    Data { bytes: bytes.to_vec(), metadata: None }
}

fn progress(response: Progress) -> LifecycleServiceUpgradeResponse {
    let progress = LifecycleServiceInstallProgress { response: Some(response) };
    LifecycleServiceUpgradeResponse { progress: Some(progress) }
}

#[tonic::async_trait]
impl LifecycleService for NodeWithLifecycleServices {
    async fn upgrade(
        &self,
        request: Asked<LifecycleServiceUpgradeRequest>,
    ) -> Result<Answered<BoxStream<LifecycleServiceUpgradeResponse>>, Status> {
        let request = request.into_inner();
        let namespace = request.containerd.unwrap_or_default().namespace();
        assert_eq!(namespace, ContainerdNamespace::NsSystem);
        let image = request.source.unwrap_or_default().image_name;
        let ends = match image.as_str() {
            "good" => vec![progress(Progress::ExitCode(0))],
            "silent" => vec![],
            _ => vec![progress(Progress::ExitCode(1))],
        };
        let says = [progress(Progress::Message(image)), LifecycleServiceUpgradeResponse::default()];
        Ok(Answered::new(pieces([&says[..], &ends].concat())))
    }

    async fn install(
        &self,
        _: Asked<LifecycleServiceInstallRequest>,
    ) -> Result<Answered<BoxStream<LifecycleServiceInstallResponse>>, Status> {
        Err(Status::already_exists("Talos is already installed"))
    }
}

#[tonic::async_trait]
impl ImageService for NodeWithLifecycleServices {
    async fn pull(
        &self,
        request: Asked<ImageServicePullRequest>,
    ) -> Result<Answered<BoxStream<ImageServicePullResponse>>, Status> {
        let name = request.into_inner().image_ref;
        let layer = ImageServicePullProgress {
            layer_id: "sha256:1".to_owned(),
            progress: Some(ImageServicePullLayerProgress {
                offset: 5,
                total: 10,
                ..ImageServicePullLayerProgress::default()
            }),
        };
        let answers = [
            image_service_pull_response::Response::PullProgress(layer),
            image_service_pull_response::Response::Name(name),
        ];
        let answers = answers.map(|response| ImageServicePullResponse { response: Some(response) });
        Ok(Answered::new(pieces(answers.to_vec())))
    }
}

#[tonic::async_trait]
impl ClusterService for NodeWithLifecycleServices {
    async fn health_check(
        &self,
        request: Asked<HealthCheckRequest>,
    ) -> Result<Answered<BoxStream<HealthCheckProgress>>, Status> {
        let nodes = request.into_inner().cluster_info.unwrap_or_default().control_plane_nodes;
        let said = HealthCheckProgress { message: nodes.join(","), metadata: None };
        let failed = Status::unavailable("etcd is not healthy");
        Ok(Answered::new(Box::pin(tokio_stream::iter([Ok(said), Err(failed)]))))
    }
}

#[tonic::async_trait]
impl MachineService for NodeWithLifecycleServices {
    async fn kubeconfig(&self, _: Asked<()>) -> Result<Answered<BoxStream<Data>>, Status> {
        let mut header = [0; 512];
        header[..10].copy_from_slice(b"kubeconfig");
        header[124..136].copy_from_slice(b"00000000013\0");
        header[156] = b'0';
        let mut file = [0; 512];
        file[..11].copy_from_slice(b"kind: Yes\r\n");
        let mut archive = GzEncoder::new(vec![], Compression::fast());
        archive.write_all(&[&header[..], &file, &[0; 1024]].concat()).unwrap();
        let archive = archive.finish().unwrap();
        let (first, rest) = archive.split_at(20);
        Ok(Answered::new(pieces(vec![data(first), data(rest)])))
    }

    async fn logs(&self, request: Asked<LogsRequest>) -> Result<Answered<BoxStream<Data>>, Status> {
        let LogsRequest { namespace, id, tail_lines, .. } = request.into_inner();
        let line = format!("{namespace} {id} {tail_lines}\n");
        Ok(Answered::new(pieces(vec![data(line.as_bytes())])))
    }

    async fn upgrade(
        &self,
        request: Asked<UpgradeRequest>,
    ) -> Result<Answered<UpgradeResponse>, Status> {
        assert!(!request.into_inner().preserve);
        let upgrade = Upgrade { actor_id: "upgrader".to_owned(), ..Upgrade::default() };
        Ok(Answered::new(UpgradeResponse { messages: vec![upgrade] }))
    }

    async fn generate_client_configuration(
        &self,
        request: Asked<GenerateClientConfigurationRequest>,
    ) -> Result<Answered<GenerateClientConfigurationResponse>, Status> {
        let request = request.into_inner();
        assert_eq!(request.crt_ttl.unwrap().seconds, 3600);
        let made = GenerateClientConfiguration {
            talosconfig: format!("context: none\n# {}\n", request.roles.join(" ")).into_bytes(),
            ..GenerateClientConfiguration::default()
        };
        Ok(Answered::new(GenerateClientConfigurationResponse { messages: vec![made] }))
    }

    async fn reset(&self, request: Asked<ResetRequest>) -> Result<Answered<ResetResponse>, Status> {
        let labels = request.into_inner().system_partitions_to_wipe;
        let labels: Vec<String> = labels.into_iter().map(|spec| spec.label).collect();
        let reset = Reset { actor_id: labels.join("+"), ..Reset::default() };
        Ok(Answered::new(ResetResponse { messages: vec![reset] }))
    }

    /// Returns an answer without a message, which is invalid.
    async fn reboot(&self, _: Asked<RebootRequest>) -> Result<Answered<RebootResponse>, Status> {
        Ok(Answered::new(RebootResponse::default()))
    }
}

#[tokio::test]
async fn the_exit_code_of_an_installer_is_read() {
    let (_server, client) = lifecycle_node().await;
    let mut pull = client.pull("factory/installer:v1.13.6").await.unwrap();
    let layer = PullStep::Layer { id: "sha256:1".to_owned(), offset: 5, total: 10 };
    assert_eq!(pull.next().await.unwrap(), Some(layer));
    let Some(PullStep::Done(name)) = pull.next().await.unwrap() else { panic!("not done") };
    assert_eq!(pull.next().await.unwrap(), None);
    let mut upgrade = client.upgrade(&name).await.unwrap();
    assert_eq!(upgrade.next().await.unwrap(), Some(Step::Said(name)));
    assert_eq!(upgrade.next().await.unwrap(), Some(Step::Exit(1)));
    assert_eq!(upgrade.next().await.unwrap(), None);
    let error = client.install("factory/installer:v1.13.6", "/dev/sda").await.unwrap_err();
    assert_eq!(error.code(), Some(Code::AlreadyExists));
    let legacy = client::LegacyUpgrade {
        image: "factory/installer:v1.12.0".to_owned(),
        stage: false,
        force: false,
    };
    assert_eq!(client.legacy_upgrade(&legacy).await.unwrap().0, "upgrader");
}

#[tokio::test]
async fn an_installer_without_an_exit_code_is_an_error() {
    let (_server, client) = lifecycle_node().await;
    let mut progress = vec![];
    upgrade::install(&client, "good", |text| progress.push(text.to_owned())).await.unwrap();
    assert_eq!(progress, ["pulling good", "good"]);
    let error = upgrade::install(&client, "bad", |_| {}).await.unwrap_err();
    assert_eq!(error.to_string(), "the installer failed with exit code 1: bad");
    let error = upgrade::install(&client, "silent", |_| {}).await.unwrap_err();
    assert_eq!(error.to_string(), "the installer ended without an exit code: silent");
}

#[tokio::test]
async fn files_and_logs_are_read_from_a_node() {
    let (_server, client) = lifecycle_node().await;
    let kubeconfig = client.kubeconfig().await.unwrap();
    assert_eq!(kubeconfig.expose(), "kind: Yes\r\n");
    assert!(!format!("{kubeconfig:?}").contains("kind"));
    let logs = client.logs(&LogSource::Service("etcd".to_owned()), Some(5), false).await.unwrap();
    assert_eq!(logs.all().await.unwrap(), b"system etcd 5\n");
    let source = LogSource::Container("kube-system/coredns".to_owned());
    let logs = client.logs(&source, None, false).await.unwrap();
    assert_eq!(logs.all().await.unwrap(), b"k8s.io kube-system/coredns -1\n");
    let made =
        client.client_configuration(&[ClientRole::Reader], Duration::from_hours(1)).await.unwrap();
    assert!(made.talosconfig.expose().contains("os:reader"));
    assert!(Credentials::from_talosconfig(&made.talosconfig, None).is_err());
    let error = client.reboot(client::RebootMode::Default).await.unwrap_err();
    assert!(matches!(error, TalosError::Unreadable { .. }), "{error:?}");
}

#[tokio::test]
async fn a_reset_names_the_partitions_that_it_wipes() {
    let (_server, client) = lifecycle_node().await;
    let reset = |labels: &[&str]| client::Reset {
        graceful: true,
        reboot: true,
        wipe: client::Wipe::Partitions(labels.iter().map(ToString::to_string).collect()),
    };
    let actor = client.reset(&reset(&["STATE", "EPHEMERAL"])).await.unwrap();
    assert_eq!(actor.0, "STATE+EPHEMERAL");
    let error = client.reset(&reset(&[])).await.unwrap_err();
    assert_eq!(error.reason(), "the reset names no partition");
}

#[tokio::test]
async fn a_node_can_check_the_cluster() {
    let (_server, client) = lifecycle_node().await;
    let planes = ["10.0.0.11".to_owned(), "10.0.0.12".to_owned()];
    let mut health = client.health_check(&planes, &[], Duration::from_mins(1)).await.unwrap();
    assert_eq!(health.next().await.unwrap().as_deref(), Some("10.0.0.11,10.0.0.12"));
    let error = health.next().await.unwrap_err();
    assert!(matches!(&error, TalosError::NotYet { reason, .. } if reason == "etcd is not healthy"));
    assert!(error.may_pass());
}
