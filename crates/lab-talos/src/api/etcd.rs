//! etcd methods of the Talos API.

use std::sync::Arc;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_talos_api::proto::common::Data;
use talmox_talos_api::proto::machine::{
    Bootstrap, BootstrapRequest, BootstrapResponse, EtcdAlarm, EtcdAlarmDisarm,
    EtcdAlarmDisarmResponse, EtcdAlarmListResponse, EtcdDefragment, EtcdDefragmentResponse,
    EtcdForfeitLeadership, EtcdForfeitLeadershipResponse, EtcdLeaveCluster,
    EtcdLeaveClusterResponse, EtcdMemberListResponse, EtcdMembers, EtcdRecover,
    EtcdRecoverResponse, EtcdRemoveMemberById, EtcdRemoveMemberByIdResponse, EtcdStatus,
    EtcdStatusResponse,
};
use talmox_talos_api::server::{Asked, Status, Streaming};
use tonic::codegen::BoxStream;

use super::{Session, deadline, gone, stream};
use crate::etcd::{self, Endpoints, RecoverOptions};

/// Call that machined forwards to etcd through the etcd client. While no etcd member serves clients, the etcd client waits and
/// reports no error. So the call stays open until a member serves clients or the deadline of the caller passes.
pub(super) struct EtcdCall<'s> {
    session: &'s Session,
    /// Timeout that the caller set, in real time.
    deadline: Option<Duration>,
}

impl<'s> EtcdCall<'s> {
    pub(super) fn new<T>(session: &'s Session, request: &Asked<T>) -> Self {
        Self { session, deadline: deadline::of(request.metadata()) }
    }

    /// Waits until a member serves clients, and then makes the call. `call` gets the vmid of that member.
    async fn make<T>(
        &self,
        endpoints: Endpoints,
        call: impl FnOnce(u32) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let Session { simulation, vmid, .. } = self.session;
        let connected = simulation
            .until(|talos| etcd::endpoint(talos, &simulation.settings.gateways, *vmid, endpoints));
        let late = async {
            match self.deadline {
                Some(time) => Clock::real().sleep(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            via = connected => call(via),
            () = self.session.until_boot_end() => Err(gone()),
            () = late => Err(Status::deadline_exceeded("context deadline exceeded")),
        }
    }
}

/// Maximum size of an uploaded snapshot. Every snapshot of a lab is smaller.
const LARGEST_SNAPSHOT: usize = 1 << 30;

pub(super) fn bootstrap(
    session: &Session,
    request: BootstrapRequest,
) -> Result<BootstrapResponse, Status> {
    let recover = request
        .recover_etcd
        .then_some(RecoverOptions { skip_hash_check: request.recover_skip_hash_check });
    etcd::bootstrap(&session.simulation, session.vmid, session.boot, recover)?;
    Ok(BootstrapResponse { messages: vec![Bootstrap { metadata: None }] })
}

pub(super) async fn members(
    call: EtcdCall<'_>,
    is_local: bool,
) -> Result<EtcdMemberListResponse, Status> {
    let endpoints = if is_local { Endpoints::Local } else { Endpoints::ControlPlanes };
    let look = |via| call.session.look(|talos, _| etcd::members(talos, via))?;
    let members = call.make(endpoints, look).await?;
    let legacy_members = members.iter().map(|member| member.hostname.clone()).collect();
    let message = EtcdMembers { metadata: None, legacy_members, members };
    Ok(EtcdMemberListResponse { messages: vec![message] })
}

pub(super) async fn status(call: EtcdCall<'_>) -> Result<EtcdStatusResponse, Status> {
    let look = |via| call.session.look(|talos, _| etcd::status(talos, via))?;
    let status = call.make(Endpoints::Local, look).await?;
    let message = EtcdStatus { metadata: None, member_status: Some(status) };
    Ok(EtcdStatusResponse { messages: vec![message] })
}

pub(super) async fn alarms(call: EtcdCall<'_>) -> Result<EtcdAlarmListResponse, Status> {
    let look = |via| call.session.look(|talos, _| etcd::alarms(talos, via))?;
    let member_alarms = call.make(Endpoints::Local, look).await?;
    Ok(EtcdAlarmListResponse { messages: vec![EtcdAlarm { metadata: None, member_alarms }] })
}

pub(super) async fn disarm(call: EtcdCall<'_>) -> Result<EtcdAlarmDisarmResponse, Status> {
    let disarm = |via| etcd::disarm(&call.session.simulation, via);
    let member_alarms = call.make(Endpoints::Local, disarm).await?;
    let message = EtcdAlarmDisarm { metadata: None, member_alarms };
    Ok(EtcdAlarmDisarmResponse { messages: vec![message] })
}

pub(super) async fn defragment(call: EtcdCall<'_>) -> Result<EtcdDefragmentResponse, Status> {
    let defragment = |via| etcd::defragment(&call.session.simulation, via);
    call.make(Endpoints::Local, defragment).await?;
    Ok(EtcdDefragmentResponse { messages: vec![EtcdDefragment { metadata: None }] })
}

/// Moves the etcd leadership away from this node. Only the etcd member of this node may answer this call.
pub(super) async fn forfeit(call: EtcdCall<'_>) -> Result<EtcdForfeitLeadershipResponse, Status> {
    let forfeit = |via| etcd::forfeit(&call.session.simulation, via);
    let member = call.make(Endpoints::Local, forfeit).await?.unwrap_or_default();
    let message = EtcdForfeitLeadership { metadata: None, member };
    Ok(EtcdForfeitLeadershipResponse { messages: vec![message] })
}

pub(super) async fn leave(call: EtcdCall<'_>) -> Result<EtcdLeaveClusterResponse, Status> {
    let leave = |via| etcd::leave(&call.session.simulation, via, call.session.boot);
    call.make(Endpoints::Local, leave).await?;
    Ok(EtcdLeaveClusterResponse { messages: vec![EtcdLeaveCluster { metadata: None }] })
}

pub(super) async fn remove(
    call: EtcdCall<'_>,
    member: u64,
) -> Result<EtcdRemoveMemberByIdResponse, Status> {
    let remove = |via| etcd::remove(&call.session.simulation, via, member);
    call.make(Endpoints::ControlPlanes, remove).await?;
    Ok(EtcdRemoveMemberByIdResponse { messages: vec![EtcdRemoveMemberById { metadata: None }] })
}

pub(super) async fn snapshot(call: EtcdCall<'_>) -> Result<BoxStream<Data>, Status> {
    let look = |via| call.session.look(|talos, _| etcd::snapshot(talos, via))?;
    Ok(stream::bytes(&call.make(Endpoints::Local, look).await?))
}

pub(super) async fn recover(
    session: &Arc<Session>,
    mut pieces: Streaming<Data>,
) -> Result<EtcdRecoverResponse, Status> {
    let mut bytes = vec![];
    while let Some(piece) = pieces.message().await? {
        bytes.extend(piece.bytes);
        if bytes.len() > LARGEST_SNAPSHOT {
            return Err(Status::unknown("error writing snapshot: no space left on device"));
        }
    }
    etcd::recover(&session.simulation, session.vmid, session.boot, bytes)?;
    Ok(EtcdRecoverResponse { messages: vec![EtcdRecover { metadata: None }] })
}
