//! Calls that change a node: the requests that the client sends, and its results for the answers.

use std::io::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use flate2::Compression;
use flate2::write::GzEncoder;
use talmox_clock::Clock;
use talmox_talos_api::client::{Alarm, CopyError, SnapshotCheck};
use talmox_talos_api::proto::common::Data;
use talmox_talos_api::proto::machine::machine_service_server::{
    MachineService, MachineServiceServer,
};
use talmox_talos_api::proto::machine::*;
use talmox_talos_api::proto::storage::storage_service_server::{
    StorageService, StorageServiceServer,
};
use talmox_talos_api::proto::storage::{Disk, Disks, DisksResponse};
use talmox_talos_api::server::{Answered, Asked, Services, Status};
use talmox_talos_api::{Client, Code, quorum};
use talmox_talos_config::secret::SecretText;
use tonic::codegen::BoxStream;

use crate::fixture::{Cluster, HOST, Server, host};
use crate::node::pieces;

/// Node that records the requests.
#[derive(Default)]
struct Worker {
    asked: Mutex<Vec<String>>,
}

impl Worker {
    fn note(&self, what: impl Into<String>) {
        self.asked.lock().unwrap().push(what.into());
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

async fn worker() -> (Arc<Worker>, Server, Client) {
    let (cluster, worker) = (Cluster::new(), Arc::new(Worker::default()));
    let services = Services::builder()
        .with(MachineServiceServer::from_arc(Arc::clone(&worker)))
        .with(StorageServiceServer::from_arc(Arc::clone(&worker)))
        .build();
    let server = Server::start(cluster.tls_config(HOST), services).await;
    let client = Client::new(host(), &cluster.credentials(), &server.settings()).unwrap();
    (worker, server, client)
}

fn data(bytes: &[u8]) -> Data {
    Data { bytes: bytes.to_vec(), metadata: None }
}

#[tonic::async_trait]
impl StorageService for Worker {
    async fn disks(&self, _: Asked<()>) -> Result<Answered<DisksResponse>, Status> {
        let disk = |name: &str, size, readonly| Disk {
            device_name: name.to_owned(),
            size,
            readonly,
            ..Disk::default()
        };
        let disks = vec![disk("/dev/sda", 40 << 30, false), disk("/dev/loop0", 60 << 20, true)];
        Ok(Answered::new(DisksResponse { messages: vec![Disks { disks, metadata: None }] }))
    }
}

#[tonic::async_trait]
impl MachineService for Worker {
    async fn shutdown(
        &self,
        request: Asked<ShutdownRequest>,
    ) -> Result<Answered<ShutdownResponse>, Status> {
        self.note(format!("shutdown force={}", request.into_inner().force));
        let shutdown = Shutdown { actor_id: "down".to_owned(), metadata: None };
        Ok(Answered::new(ShutdownResponse { messages: vec![shutdown] }))
    }

    async fn rollback(
        &self,
        _: Asked<RollbackRequest>,
    ) -> Result<Answered<RollbackResponse>, Status> {
        Err(Status::unknown("previous UKI not found"))
    }

    async fn dmesg(
        &self,
        request: Asked<DmesgRequest>,
    ) -> Result<Answered<BoxStream<Data>>, Status> {
        let DmesgRequest { follow, tail } = request.into_inner();
        self.note(format!("dmesg follow={follow} tail={tail}"));
        Ok(Answered::new(pieces(vec![data(b"kern: one\n"), data(b"kern: two\n")])))
    }

    async fn copy(&self, request: Asked<CopyRequest>) -> Result<Answered<BoxStream<Data>>, Status> {
        let path = request.into_inner().root_path;
        self.note(format!("copy {path}"));
        if path == "/etc" {
            return Ok(Answered::new(pieces(vec![data(b"no archive")])));
        }
        let mut header = [0; 512];
        header[124..136].copy_from_slice(b"00000020000\0");
        header[156] = b'0';
        let mut archive = GzEncoder::new(vec![], Compression::fast());
        archive.write_all(&[&header[..], &[5; 8192], &[0; 1024]].concat()).unwrap();
        let archive = archive.finish().unwrap();
        Ok(Answered::new(pieces(archive.chunks(11).map(data).collect())))
    }

    async fn meta_write(
        &self,
        request: Asked<MetaWriteRequest>,
    ) -> Result<Answered<MetaWriteResponse>, Status> {
        let MetaWriteRequest { key, value } = request.into_inner();
        self.note(format!("meta {key:#x} {}", String::from_utf8_lossy(&value)));
        Ok(Answered::new(MetaWriteResponse::default()))
    }

    async fn image_pull(
        &self,
        request: Asked<ImagePullRequest>,
    ) -> Result<Answered<ImagePullResponse>, Status> {
        let request = request.into_inner();
        if request.reference == "slow" {
            Clock::real().sleep(Duration::from_millis(5500)).await;
        }
        self.note(format!("pull {} {}", request.namespace().as_str_name(), request.reference));
        Ok(Answered::new(ImagePullResponse::default()))
    }

    async fn service_list(&self, _: Asked<()>) -> Result<Answered<ServiceListResponse>, Status> {
        let health = ServiceHealth { healthy: true, ..ServiceHealth::default() };
        let etcd = ServiceInfo {
            id: "etcd".to_owned(),
            state: "Running".to_owned(),
            health: Some(health),
            events: None,
        };
        let list = ServiceList { services: vec![etcd], metadata: None };
        Ok(Answered::new(ServiceListResponse { messages: vec![list] }))
    }

    async fn etcd_member_list(
        &self,
        request: Asked<EtcdMemberListRequest>,
    ) -> Result<Answered<EtcdMemberListResponse>, Status> {
        assert!(request.into_inner().query_local);
        let member = |id, hostname: &str, is_learner| EtcdMember {
            id,
            hostname: hostname.to_owned(),
            client_urls: vec!["https://10.0.0.11:2379".to_owned()],
            is_learner,
            ..EtcdMember::default()
        };
        let members = vec![member(1, "cp-1", false), member(2, "cp-2", true)];
        let members = EtcdMembers { members, ..EtcdMembers::default() };
        Ok(Answered::new(EtcdMemberListResponse { messages: vec![members] }))
    }

    async fn etcd_status(&self, _: Asked<()>) -> Result<Answered<EtcdStatusResponse>, Status> {
        let status = EtcdMemberStatus {
            member_id: 1,
            leader: 1,
            db_size: 20 << 20,
            ..EtcdMemberStatus::default()
        };
        let status = EtcdStatus { member_status: Some(status), metadata: None };
        Ok(Answered::new(EtcdStatusResponse { messages: vec![status] }))
    }

    async fn etcd_alarm_list(
        &self,
        _: Asked<()>,
    ) -> Result<Answered<EtcdAlarmListResponse>, Status> {
        let alarm = |member_id, alarm| EtcdMemberAlarm { member_id, alarm };
        let member_alarms = vec![alarm(1, 1), alarm(2, 2), alarm(3, 0), alarm(4, 77)];
        let alarm = EtcdAlarm { member_alarms, metadata: None };
        Ok(Answered::new(EtcdAlarmListResponse { messages: vec![alarm] }))
    }

    async fn etcd_alarm_disarm(
        &self,
        _: Asked<()>,
    ) -> Result<Answered<EtcdAlarmDisarmResponse>, Status> {
        let member_alarms = vec![EtcdMemberAlarm { member_id: 1, alarm: 1 }];
        let disarmed = EtcdAlarmDisarm { member_alarms, metadata: None };
        Ok(Answered::new(EtcdAlarmDisarmResponse { messages: vec![disarmed] }))
    }

    async fn etcd_defragment(
        &self,
        _: Asked<()>,
    ) -> Result<Answered<EtcdDefragmentResponse>, Status> {
        self.note("defragment");
        Ok(Answered::new(EtcdDefragmentResponse::default()))
    }

    async fn etcd_remove_member_by_id(
        &self,
        request: Asked<EtcdRemoveMemberByIdRequest>,
    ) -> Result<Answered<EtcdRemoveMemberByIdResponse>, Status> {
        match request.into_inner().member_id {
            7 => Ok(Answered::new(EtcdRemoveMemberByIdResponse::default())),
            other => Err(Status::not_found(format!("etcdserver: member not found: {other}"))),
        }
    }

    async fn etcd_leave_cluster(
        &self,
        _: Asked<EtcdLeaveClusterRequest>,
    ) -> Result<Answered<EtcdLeaveClusterResponse>, Status> {
        self.note("leave");
        Ok(Answered::new(EtcdLeaveClusterResponse::default()))
    }

    async fn etcd_forfeit_leadership(
        &self,
        _: Asked<EtcdForfeitLeadershipRequest>,
    ) -> Result<Answered<EtcdForfeitLeadershipResponse>, Status> {
        let one = EtcdForfeitLeadership { member: "cp-2".to_owned(), metadata: None };
        Ok(Answered::new(EtcdForfeitLeadershipResponse { messages: vec![one] }))
    }

    async fn etcd_snapshot(
        &self,
        _: Asked<EtcdSnapshotRequest>,
    ) -> Result<Answered<BoxStream<Data>>, Status> {
        let database = vec![9; 16 << 10];
        let sum = digest(&SHA256, &database);
        let (first, rest) = database.split_at(1000);
        Ok(Answered::new(pieces(vec![data(first), data(rest), data(sum.as_ref())])))
    }
}

#[tokio::test]
async fn machine_operations_send_the_right_requests() {
    let (worker, _server, client) = worker().await;
    assert_eq!(client.shutdown(true).await.unwrap().0, "down");
    let error = client.rollback().await.unwrap_err();
    assert_eq!(error.reason(), "previous UKI not found");
    assert_eq!(error.code(), Some(Code::Unknown));
    client.meta_write(0x0a, &SecretText::new("addresses: []".to_owned())).await.unwrap();
    client.legacy_pull("ghcr.io/siderolabs/kubelet:v1.34.0", true).await.unwrap();
    client.legacy_pull("registry.k8s.io/pause:3.10", false).await.unwrap();
    assert_eq!(
        worker.asked(),
        [
            "shutdown force=true",
            "meta 0xa addresses: []",
            "pull NS_SYSTEM ghcr.io/siderolabs/kubelet:v1.34.0",
            "pull NS_CRI registry.k8s.io/pause:3.10",
        ]
    );
}

#[tokio::test]
async fn calls_that_pull_have_a_longer_timeout() {
    let (cluster, worker) = (Cluster::new(), Arc::new(Worker::default()));
    let services =
        Services::builder().with(MachineServiceServer::from_arc(Arc::clone(&worker))).build();
    let server = Server::start(cluster.tls_config(HOST), services).await;
    let mut settings = server.settings();
    // The timeout is still five seconds of real time, because this is the minimum of every timeout.
    settings.limits.answer = Duration::from_secs(1);
    let client = Client::new(host(), &cluster.credentials(), &settings).unwrap();
    client.legacy_pull("slow", true).await.unwrap();
    assert_eq!(worker.asked(), ["pull NS_SYSTEM slow"]);
}

#[tokio::test]
async fn disks_and_the_kernel_log_are_read() {
    let (worker, _server, client) = worker().await;
    let disks = client.disks().await.unwrap();
    let disks: Vec<_> =
        disks.iter().map(|disk| (disk.device_name.as_str(), disk.size, disk.readonly)).collect();
    assert_eq!(disks, [("/dev/sda", 40 << 30, false), ("/dev/loop0", 60 << 20, true)]);
    let said = client.dmesg(false).await.unwrap().all().await.unwrap();
    assert_eq!(said, b"kern: one\nkern: two\n");
    assert_eq!(worker.asked(), ["dmesg follow=false tail=false"]);
}

#[tokio::test]
async fn etcd_maintenance_calls_send_the_right_requests() {
    let (worker, _server, client) = worker().await;
    let alarms = [(1, Alarm::NoSpace), (2, Alarm::Corrupt), (4, Alarm::Other)];
    assert_eq!(client.etcd_alarms().await.unwrap(), alarms);
    assert_eq!(client.etcd_disarm().await.unwrap(), alarms[..1]);
    assert_eq!(client.etcd_status().await.unwrap().db_size, 20 << 20);
    client.etcd_defragment().await.unwrap();
    client.etcd_remove_member(7).await.unwrap();
    let error = client.etcd_remove_member(8).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::NotFound));
    assert_eq!(client.etcd_forfeit_leadership().await.unwrap().as_deref(), Some("cp-2"));
    client.etcd_leave().await.unwrap();
    assert_eq!(worker.asked(), ["defragment", "leave"]);
}

#[tokio::test]
async fn etcd_problems_are_reported_before_a_control_plane_goes_down() {
    let (_worker, _server, client) = worker().await;
    let views = quorum::look(&[("cp-1".to_owned(), client)]).await;
    assert_eq!(
        quorum::objections(&views),
        [
            "cp-1: etcd has an active alarm: the database is full (NOSPACE)",
            "the member cp-2 is still a learner",
            "the member cp-2 does not belong to any control plane",
            "etcd has two members and loses its quorum without one of them",
        ]
    );
}

#[tokio::test]
async fn etcd_is_backed_up_with_and_without_quorum() {
    let (worker, _server, client) = worker().await;
    let mut snapshot = client.etcd_snapshot().await.unwrap();
    let mut check = SnapshotCheck::default();
    while let Some(piece) = snapshot.next_in_time().await.unwrap() {
        check.update(&piece);
    }
    check.finish().unwrap();
    let mut copy = vec![];
    assert_eq!(client.etcd_database(&mut copy).await.unwrap(), 8192);
    assert_eq!(copy, vec![5; 8192]);
    assert_eq!(worker.asked(), ["copy /var/lib/etcd/member/snap/db"]);
    let error = client.copy_file("/etc", &mut copy).await.unwrap_err();
    assert!(matches!(error, CopyError::Write(_)), "{error:?}");
}
