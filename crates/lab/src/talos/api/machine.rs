//! MachineService: each method in the file of its kind.

use std::sync::Arc;

use talmox_talos_api::proto::common::Data;
use talmox_talos_api::proto::machine::machine_service_server::MachineService;
use talmox_talos_api::proto::machine::{
    ApplyConfigurationRequest, ApplyConfigurationResponse, DmesgRequest, Event, EventsRequest,
    GenerateClientConfigurationRequest, GenerateClientConfigurationResponse, Hostname,
    HostnameResponse, LogsRequest, MemoryResponse, MetaDelete, MetaDeleteRequest,
    MetaDeleteResponse, MetaWrite, MetaWriteRequest, MetaWriteResponse, ReadRequest,
    ServiceListResponse, VersionResponse,
};
use talmox_talos_api::server::{Answered, Asked, Status};
use tonic::codegen::BoxStream;

use super::{NodeApi, Session, client_config, event, file, kubeconfig, status};

type Answer<T> = Result<Answered<T>, Status>;

#[tonic::async_trait]
impl MachineService for NodeApi {
    async fn version(&self, _: Asked<()>) -> Answer<VersionResponse> {
        let messages = vec![self.0.node(status::version)?];
        Ok(Answered::new(VersionResponse { messages }))
    }

    async fn hostname(&self, _: Asked<()>) -> Answer<HostnameResponse> {
        let hostname = self.0.node(|node| node.hostname().to_owned())?;
        let messages = vec![Hostname { metadata: None, hostname }];
        Ok(Answered::new(HostnameResponse { messages }))
    }

    async fn memory(&self, _: Asked<()>) -> Answer<MemoryResponse> {
        let messages = vec![self.0.node(status::memory)?];
        Ok(Answered::new(MemoryResponse { messages }))
    }

    async fn service_list(&self, _: Asked<()>) -> Answer<ServiceListResponse> {
        let messages = vec![self.0.node(status::services)?];
        Ok(Answered::new(ServiceListResponse { messages }))
    }

    async fn apply_configuration(
        &self,
        request: Asked<ApplyConfigurationRequest>,
    ) -> Answer<ApplyConfigurationResponse> {
        let Session { realm, vmid, boot, .. } = &*self.0;
        let applied = realm.apply(*vmid, *boot, request.get_ref(), self.0.is_anonymous())?;
        Ok(Answered::new(ApplyConfigurationResponse { messages: vec![applied] }))
    }

    async fn events(&self, request: Asked<EventsRequest>) -> Answer<BoxStream<Event>> {
        event::events(&self.0, request.into_inner()).map(Answered::new)
    }

    async fn read(&self, request: Asked<ReadRequest>) -> Answer<BoxStream<Data>> {
        file::read(&self.0, &request.into_inner().path).map(Answered::new)
    }

    async fn logs(&self, request: Asked<LogsRequest>) -> Answer<BoxStream<Data>> {
        file::logs(&self.0, request.into_inner()).map(Answered::new)
    }

    async fn dmesg(&self, request: Asked<DmesgRequest>) -> Answer<BoxStream<Data>> {
        file::dmesg(&self.0, request.into_inner()).map(Answered::new)
    }

    async fn kubeconfig(&self, _: Asked<()>) -> Answer<BoxStream<Data>> {
        kubeconfig::kubeconfig(&self.0).map(Answered::new)
    }

    async fn generate_client_configuration(
        &self,
        request: Asked<GenerateClientConfigurationRequest>,
    ) -> Answer<GenerateClientConfigurationResponse> {
        let messages = vec![client_config::generate(&self.0, &request.into_inner())?];
        Ok(Answered::new(GenerateClientConfigurationResponse { messages }))
    }

    async fn meta_write(&self, request: Asked<MetaWriteRequest>) -> Answer<MetaWriteResponse> {
        let MetaWriteRequest { key, value } = request.into_inner();
        file::write_meta(&self.0, key, &value)?;
        Ok(Answered::new(MetaWriteResponse { messages: vec![MetaWrite { metadata: None }] }))
    }

    async fn meta_delete(&self, request: Asked<MetaDeleteRequest>) -> Answer<MetaDeleteResponse> {
        file::delete_meta(&self.0, request.into_inner().key)?;
        Ok(Answered::new(MetaDeleteResponse { messages: vec![MetaDelete { metadata: None }] }))
    }
}

/// Some calls are for control planes alone.
pub(super) fn only_on_control_planes(session: &Session, what: &str) -> Result<(), Status> {
    if session.node(|node| node.is_control_plane())? {
        return Ok(());
    }
    Err(Status::unimplemented(format!("{what} is only available on control plane nodes")))
}

/// Numbers of an actor, as a UUID.
pub(super) fn actor(session: &Arc<Session>) -> String {
    let mut bytes = [0_u8; 16];
    session.realm.chance(&format!("actor/{}", session.vmid)).fill(&mut bytes);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}
