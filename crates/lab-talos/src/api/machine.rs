//! `MachineService`. Each method is implemented in the module of its topic.

use talmox_lab_environment::Work;
use talmox_talos_api::proto::common::Data;
use talmox_talos_api::proto::machine::machine_service_server::MachineService;
use talmox_talos_api::proto::machine::{
    ApplyConfigurationRequest, ApplyConfigurationResponse, BootstrapRequest, BootstrapResponse,
    CopyRequest, DmesgRequest, EtcdAlarmDisarmResponse, EtcdAlarmListResponse,
    EtcdDefragmentResponse, EtcdForfeitLeadershipRequest, EtcdForfeitLeadershipResponse,
    EtcdLeaveClusterRequest, EtcdLeaveClusterResponse, EtcdMemberListRequest,
    EtcdMemberListResponse, EtcdRecoverResponse, EtcdRemoveMemberByIdRequest,
    EtcdRemoveMemberByIdResponse, EtcdSnapshotRequest, EtcdStatusResponse, Event, EventsRequest,
    GenerateClientConfigurationRequest, GenerateClientConfigurationResponse, Hostname,
    HostnameResponse, ImagePull, ImagePullRequest, ImagePullResponse, LogsRequest, MemoryResponse,
    MetaDelete, MetaDeleteRequest, MetaDeleteResponse, MetaWrite, MetaWriteRequest,
    MetaWriteResponse, ReadRequest, Reboot, RebootRequest, RebootResponse, Reset, ResetRequest,
    ResetResponse, Rollback, RollbackRequest, RollbackResponse, ServiceListResponse,
    ServiceRestart, ServiceRestartRequest, ServiceRestartResponse, ServiceStart,
    ServiceStartRequest, ServiceStartResponse, ServiceStop, ServiceStopRequest,
    ServiceStopResponse, Shutdown, ShutdownRequest, ShutdownResponse, Upgrade, UpgradeRequest,
    UpgradeResponse, VersionResponse,
};
use talmox_talos_api::server::{Answered, Asked, Status, Streaming};
use tonic::codegen::BoxStream;

use super::apply_lock::ApplyLock;
use super::etcd::EtcdCall;
use super::{
    NodeApi, Session, client_config, etcd, event, file, kubeconfig, lifecycle, log, status,
};
use crate::sequence::ServiceOperation;
use crate::talos_state::Node;

type ApiResult<T> = Result<Answered<T>, Status>;

#[tonic::async_trait]
impl MachineService for NodeApi {
    async fn version(&self, _: Asked<()>) -> ApiResult<VersionResponse> {
        let messages = vec![self.0.node(status::version)?];
        Ok(Answered::new(VersionResponse { messages }))
    }

    async fn hostname(&self, _: Asked<()>) -> ApiResult<HostnameResponse> {
        let hostname = self.0.node(|node| node.hostname().to_owned())?;
        let messages = vec![Hostname { metadata: None, hostname }];
        Ok(Answered::new(HostnameResponse { messages }))
    }

    async fn memory(&self, _: Asked<()>) -> ApiResult<MemoryResponse> {
        let messages = vec![self.0.node(status::memory)?];
        Ok(Answered::new(MemoryResponse { messages }))
    }

    async fn service_list(&self, _: Asked<()>) -> ApiResult<ServiceListResponse> {
        let messages = vec![self.0.node(status::services)?];
        Ok(Answered::new(ServiceListResponse { messages }))
    }

    async fn service_start(
        &self,
        request: Asked<ServiceStartRequest>,
    ) -> ApiResult<ServiceStartResponse> {
        let resp = self
            .control_service(&request.into_inner().id, ServiceOperation::Start, "started")
            .await?;
        let messages = vec![ServiceStart { metadata: None, resp }];
        Ok(Answered::new(ServiceStartResponse { messages }))
    }

    async fn service_stop(
        &self,
        request: Asked<ServiceStopRequest>,
    ) -> ApiResult<ServiceStopResponse> {
        let resp = self
            .control_service(&request.into_inner().id, ServiceOperation::Stop, "stopped")
            .await?;
        let messages = vec![ServiceStop { metadata: None, resp }];
        Ok(Answered::new(ServiceStopResponse { messages }))
    }

    async fn service_restart(
        &self,
        request: Asked<ServiceRestartRequest>,
    ) -> ApiResult<ServiceRestartResponse> {
        let resp = self
            .control_service(&request.into_inner().id, ServiceOperation::Restart, "restarted")
            .await?;
        let messages = vec![ServiceRestart { metadata: None, resp }];
        Ok(Answered::new(ServiceRestartResponse { messages }))
    }

    async fn apply_configuration(
        &self,
        request: Asked<ApplyConfigurationRequest>,
    ) -> ApiResult<ApplyConfigurationResponse> {
        let Session { simulation, vmid, boot, .. } = &*self.0;
        let _applying = ApplyLock::acquire(&self.0)?;
        simulation.environment.wait(Work::Call, &format!("node/{vmid}/apply")).await;
        let applied = simulation.apply(*vmid, *boot, request.get_ref(), self.0.is_anonymous())?;
        Ok(Answered::new(ApplyConfigurationResponse { messages: vec![applied] }))
    }

    async fn events(&self, request: Asked<EventsRequest>) -> ApiResult<BoxStream<Event>> {
        event::events(&self.0, request.into_inner()).map(Answered::new)
    }

    async fn read(&self, request: Asked<ReadRequest>) -> ApiResult<BoxStream<Data>> {
        file::read(&self.0, &request.into_inner().path).map(Answered::new)
    }

    async fn copy(&self, request: Asked<CopyRequest>) -> ApiResult<BoxStream<Data>> {
        file::copy(&self.0, &request.into_inner().root_path).map(Answered::new)
    }

    async fn logs(&self, request: Asked<LogsRequest>) -> ApiResult<BoxStream<Data>> {
        log::logs(&self.0, request.get_ref()).map(Answered::new)
    }

    async fn dmesg(&self, request: Asked<DmesgRequest>) -> ApiResult<BoxStream<Data>> {
        log::dmesg(&self.0, request.into_inner()).map(Answered::new)
    }

    async fn kubeconfig(&self, _: Asked<()>) -> ApiResult<BoxStream<Data>> {
        kubeconfig::kubeconfig(&self.0).map(Answered::new)
    }

    async fn generate_client_configuration(
        &self,
        request: Asked<GenerateClientConfigurationRequest>,
    ) -> ApiResult<GenerateClientConfigurationResponse> {
        let messages = vec![client_config::generate(&self.0, &request.into_inner())?];
        Ok(Answered::new(GenerateClientConfigurationResponse { messages }))
    }

    async fn meta_write(&self, request: Asked<MetaWriteRequest>) -> ApiResult<MetaWriteResponse> {
        let MetaWriteRequest { key, value } = request.into_inner();
        file::write_meta(&self.0, key, &value)?;
        Ok(Answered::new(MetaWriteResponse { messages: vec![MetaWrite { metadata: None }] }))
    }

    async fn meta_delete(
        &self,
        request: Asked<MetaDeleteRequest>,
    ) -> ApiResult<MetaDeleteResponse> {
        file::delete_meta(&self.0, request.into_inner().key)?;
        Ok(Answered::new(MetaDeleteResponse { messages: vec![MetaDelete { metadata: None }] }))
    }

    async fn bootstrap(&self, request: Asked<BootstrapRequest>) -> ApiResult<BootstrapResponse> {
        etcd::bootstrap(&self.0, request.into_inner()).map(Answered::new)
    }

    async fn etcd_member_list(
        &self,
        request: Asked<EtcdMemberListRequest>,
    ) -> ApiResult<EtcdMemberListResponse> {
        let call = EtcdCall::new(&self.0, &request);
        etcd::members(call, request.get_ref().query_local).await.map(Answered::new)
    }

    async fn etcd_status(&self, request: Asked<()>) -> ApiResult<EtcdStatusResponse> {
        etcd::status(EtcdCall::new(&self.0, &request)).await.map(Answered::new)
    }

    async fn etcd_alarm_list(&self, request: Asked<()>) -> ApiResult<EtcdAlarmListResponse> {
        etcd::alarms(EtcdCall::new(&self.0, &request)).await.map(Answered::new)
    }

    async fn etcd_alarm_disarm(&self, request: Asked<()>) -> ApiResult<EtcdAlarmDisarmResponse> {
        etcd::disarm(EtcdCall::new(&self.0, &request)).await.map(Answered::new)
    }

    async fn etcd_defragment(&self, request: Asked<()>) -> ApiResult<EtcdDefragmentResponse> {
        etcd::defragment(EtcdCall::new(&self.0, &request)).await.map(Answered::new)
    }

    async fn etcd_forfeit_leadership(
        &self,
        request: Asked<EtcdForfeitLeadershipRequest>,
    ) -> ApiResult<EtcdForfeitLeadershipResponse> {
        etcd::forfeit(EtcdCall::new(&self.0, &request)).await.map(Answered::new)
    }

    async fn etcd_leave_cluster(
        &self,
        request: Asked<EtcdLeaveClusterRequest>,
    ) -> ApiResult<EtcdLeaveClusterResponse> {
        etcd::leave(EtcdCall::new(&self.0, &request)).await.map(Answered::new)
    }

    async fn etcd_remove_member_by_id(
        &self,
        request: Asked<EtcdRemoveMemberByIdRequest>,
    ) -> ApiResult<EtcdRemoveMemberByIdResponse> {
        let call = EtcdCall::new(&self.0, &request);
        etcd::remove(call, request.get_ref().member_id).await.map(Answered::new)
    }

    async fn etcd_snapshot(
        &self,
        request: Asked<EtcdSnapshotRequest>,
    ) -> ApiResult<BoxStream<Data>> {
        etcd::snapshot(EtcdCall::new(&self.0, &request)).await.map(Answered::new)
    }

    async fn etcd_recover(
        &self,
        request: Asked<Streaming<Data>>,
    ) -> ApiResult<EtcdRecoverResponse> {
        etcd::recover(&self.0, request.into_inner()).await.map(Answered::new)
    }

    async fn image_pull(&self, request: Asked<ImagePullRequest>) -> ApiResult<ImagePullResponse> {
        lifecycle::pull(&self.0, &request.into_inner().reference).await?;
        Ok(Answered::new(ImagePullResponse { messages: vec![ImagePull { metadata: None }] }))
    }

    async fn reboot(&self, request: Asked<RebootRequest>) -> ApiResult<RebootResponse> {
        let Session { simulation, vmid, boot, .. } = &*self.0;
        let actor_id = simulation.reboot(*vmid, *boot, request.get_ref().mode())?;
        Ok(Answered::new(RebootResponse { messages: vec![Reboot { metadata: None, actor_id }] }))
    }

    async fn shutdown(&self, request: Asked<ShutdownRequest>) -> ApiResult<ShutdownResponse> {
        let Session { simulation, vmid, boot, .. } = &*self.0;
        let actor_id = simulation.shut_down(*vmid, *boot, request.get_ref().force)?;
        let messages = vec![Shutdown { metadata: None, actor_id }];
        Ok(Answered::new(ShutdownResponse { messages }))
    }

    async fn reset(&self, request: Asked<ResetRequest>) -> ApiResult<ResetResponse> {
        let Session { simulation, vmid, boot, .. } = &*self.0;
        let actor_id = simulation.reset(*vmid, *boot, request.into_inner())?;
        Ok(Answered::new(ResetResponse { messages: vec![Reset { metadata: None, actor_id }] }))
    }

    async fn upgrade(&self, request: Asked<UpgradeRequest>) -> ApiResult<UpgradeResponse> {
        let Session { simulation, vmid, boot, .. } = &*self.0;
        let actor_id = simulation.upgrade(*vmid, *boot, request.into_inner()).await?;
        let ack = "Upgrade request received".to_owned();
        let messages = vec![Upgrade { metadata: None, ack, actor_id }];
        Ok(Answered::new(UpgradeResponse { messages }))
    }

    async fn rollback(&self, _: Asked<RollbackRequest>) -> ApiResult<RollbackResponse> {
        let Session { simulation, vmid, boot, .. } = &*self.0;
        simulation.roll_back(*vmid, *boot)?;
        Ok(Answered::new(RollbackResponse { messages: vec![Rollback { metadata: None }] }))
    }
}

impl NodeApi {
    /// Starts, stops or restarts a service, and returns the confirmation.
    async fn control_service(
        &self,
        service: &str,
        order: ServiceOperation,
        done: &str,
    ) -> Result<String, Status> {
        let Session { simulation, vmid, boot, .. } = &*self.0;
        simulation.control_service(*vmid, *boot, service, order).await?;
        Ok(format!("Service {service:?} {done}"))
    }
}

/// Rejects a call on a worker, because only control planes answer this call.
pub(super) fn only_on_control_planes(session: &Session, what: &str) -> Result<(), Status> {
    if session.node(Node::is_control_plane)? {
        return Ok(());
    }
    Err(Status::unimplemented(format!("{what} is only available on control plane nodes")))
}
