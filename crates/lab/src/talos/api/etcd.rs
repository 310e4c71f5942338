//! etcd, as far as the Talos API shows it.

use std::sync::Arc;

use talmox_talos_api::proto::common::Data;
use talmox_talos_api::proto::machine::{
    Bootstrap, BootstrapRequest, BootstrapResponse, EtcdAlarm, EtcdAlarmDisarm,
    EtcdAlarmDisarmResponse, EtcdAlarmListResponse, EtcdDefragment, EtcdDefragmentResponse,
    EtcdForfeitLeadership, EtcdForfeitLeadershipResponse, EtcdLeaveCluster,
    EtcdLeaveClusterResponse, EtcdMemberListResponse, EtcdMembers, EtcdRecover,
    EtcdRecoverResponse, EtcdRemoveMemberById, EtcdRemoveMemberByIdResponse, EtcdStatus,
    EtcdStatusResponse,
};
use talmox_talos_api::server::{Status, Streaming};
use tonic::codegen::BoxStream;

use super::Session;
use super::stream;
use crate::talos::etcd::{self, Recover};

/// More than any snapshot of a lab has.
const LARGEST_SNAPSHOT: usize = 1 << 30;

pub(super) fn bootstrap(
    session: &Session,
    request: BootstrapRequest,
) -> Result<BootstrapResponse, Status> {
    let recover = request
        .recover_etcd
        .then_some(Recover { skip_hash_check: request.recover_skip_hash_check });
    etcd::bootstrap(&session.realm, session.vmid, session.boot, recover)?;
    Ok(BootstrapResponse { messages: vec![Bootstrap { metadata: None }] })
}

pub(super) fn members(session: &Session) -> Result<EtcdMemberListResponse, Status> {
    let members = session.look(|land, _| etcd::members(land, session.vmid))??;
    let legacy_members = members.iter().map(|member| member.hostname.clone()).collect();
    let message = EtcdMembers { metadata: None, legacy_members, members };
    Ok(EtcdMemberListResponse { messages: vec![message] })
}

pub(super) fn status(session: &Session) -> Result<EtcdStatusResponse, Status> {
    let status = session.look(|land, _| etcd::status(land, session.vmid))??;
    let message = EtcdStatus { metadata: None, member_status: Some(status) };
    Ok(EtcdStatusResponse { messages: vec![message] })
}

pub(super) fn alarms(session: &Session) -> Result<EtcdAlarmListResponse, Status> {
    let member_alarms = session.look(|land, _| etcd::alarms(land, session.vmid))??;
    Ok(EtcdAlarmListResponse { messages: vec![EtcdAlarm { metadata: None, member_alarms }] })
}

pub(super) fn disarm(session: &Session) -> Result<EtcdAlarmDisarmResponse, Status> {
    let member_alarms = etcd::disarm(&session.realm, session.vmid)?;
    let message = EtcdAlarmDisarm { metadata: None, member_alarms };
    Ok(EtcdAlarmDisarmResponse { messages: vec![message] })
}

pub(super) fn defragment(session: &Session) -> Result<EtcdDefragmentResponse, Status> {
    etcd::defragment(&session.realm, session.vmid)?;
    Ok(EtcdDefragmentResponse { messages: vec![EtcdDefragment { metadata: None }] })
}

pub(super) fn forfeit(session: &Session) -> Result<EtcdForfeitLeadershipResponse, Status> {
    let member = etcd::forfeit(&session.realm, session.vmid)?.unwrap_or_default();
    let message = EtcdForfeitLeadership { metadata: None, member };
    Ok(EtcdForfeitLeadershipResponse { messages: vec![message] })
}

pub(super) fn leave(session: &Session) -> Result<EtcdLeaveClusterResponse, Status> {
    etcd::leave(&session.realm, session.vmid, session.boot)?;
    Ok(EtcdLeaveClusterResponse { messages: vec![EtcdLeaveCluster { metadata: None }] })
}

pub(super) fn remove(
    session: &Session,
    member: u64,
) -> Result<EtcdRemoveMemberByIdResponse, Status> {
    etcd::remove(&session.realm, session.vmid, member)?;
    Ok(EtcdRemoveMemberByIdResponse { messages: vec![EtcdRemoveMemberById { metadata: None }] })
}

pub(super) fn snapshot(session: &Session) -> Result<BoxStream<Data>, Status> {
    let snapshot = session.look(|land, _| etcd::snapshot(land, session.vmid))??;
    Ok(stream::bytes(&snapshot))
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
    etcd::recover(&session.realm, session.vmid, session.boot, bytes)?;
    Ok(EtcdRecoverResponse { messages: vec![EtcdRecover { metadata: None }] })
}
