//! etcd operations of the Talos API.

use std::sync::Arc;

use talmox_talos_api::proto::machine::{
    EtcdMember, EtcdMemberAlarm, EtcdMemberStatus, etcd_member_alarm::AlarmType,
};
use tonic::{Code, Status};

use super::version::{storage_version, version};
use super::{EtcdCluster, snapshot as file};
use crate::simulation::Simulation;
use crate::talos_state::{Membership, TalosState};

/// Page size of the database file. Each change also leaves this many bytes unused until the next defragmentation.
const PAGE: u64 = 4096;
const UNUSED_BYTES_PER_CHANGE: u64 = 512;
/// Size of an empty database file.
const EMPTY_FILE_SIZE: u64 = 20 * 1024;

/// Cluster and membership of a node with a running etcd. API calls wait until etcd runs (see `endpoint`).
fn local_member<'l>(
    talos: &'l TalosState,
    vmid: u32,
    call: &str,
) -> Result<(&'l EtcdCluster, Membership), Status> {
    let node = talos.nodes.get(&vmid).filter(|node| node.is_control_plane());
    let Some(node) = node else {
        return Err(Status::unimplemented(format!(
            "{call} is only available on control plane nodes"
        )));
    };
    let rejected = || {
        Status::unavailable(
            "connection error: desc = \"transport: Error while dialing: dial tcp 127.0.0.1:2379: connect: connection refused\"",
        )
    };
    let membership = node.etcd.filter(|_| talos.runs_etcd(node)).ok_or_else(rejected)?;
    let cluster = talos.etcds.get(&membership.cluster).ok_or_else(rejected)?;
    Ok((cluster, membership))
}

/// Cluster and membership of a node with a running etcd that is a voting member.
fn voting_member<'l>(
    talos: &'l TalosState,
    vmid: u32,
    call: &str,
) -> Result<(&'l EtcdCluster, Membership), Status> {
    let (cluster, membership) = local_member(talos, vmid, call)?;
    if cluster.members[&membership.member].is_learner {
        return Err(Status::unknown("etcdserver: rpc not supported for learner"));
    }
    Ok((cluster, membership))
}

/// Errors of etcd without quorum. A call that requires a leader fails at once with the first error, other calls fail after a
/// timeout with the second.
const NO_LEADER: &str = "etcdserver: no leader";
const TIMED_OUT: &str = "etcdserver: request timed out";

/// Cluster and membership of a voting member that has a leader. Calls that need consensus use this function. `otherwise` is the
/// error without a leader.
fn with_leader<'l>(
    talos: &'l TalosState,
    vmid: u32,
    call: &str,
    otherwise: &str,
) -> Result<(&'l EtcdCluster, Membership), Status> {
    let (cluster, membership) = voting_member(talos, vmid, call)?;
    if !talos.serves(membership) {
        return Err(Status::unknown(otherwise));
    }
    Ok((cluster, membership))
}

/// Converts an error of etcd to the error of machined. The text gets a prefix with the operation. The gRPC code is kept only
/// for connection errors.
fn machined_error(doing: &'static str) -> impl Fn(Status) -> Status {
    move |status| match status.code() {
        Code::Unavailable => {
            let reason = status.message();
            Status::unavailable(format!("{doing}: rpc error: code = Unavailable desc = {reason}"))
        }
        Code::Unknown => Status::unknown(format!("{doing}: {}", status.message())),
        _ => status,
    }
}

/// Members of the cluster. The member list requires consensus, even though a single member answers.
pub(crate) fn members(talos: &TalosState, vmid: u32) -> Result<Vec<EtcdMember>, Status> {
    let (cluster, _) = with_leader(talos, vmid, "member list", NO_LEADER)?;
    let member = |(id, member): (&u64, &super::Member)| {
        let host = match member.peer {
            std::net::IpAddr::V4(address) => address.to_string(),
            std::net::IpAddr::V6(address) => format!("[{address}]"),
        };
        // A member that has not started yet has a peer URL but no client URL.
        let has_started = !member.name.is_empty();
        EtcdMember {
            id: *id,
            hostname: member.name.clone(),
            peer_urls: vec![format!("https://{host}:2380")],
            client_urls: has_started.then(|| format!("https://{host}:2379")).into_iter().collect(),
            is_learner: member.is_learner,
        }
    };
    Ok(cluster.members.iter().map(member).collect())
}

pub(crate) fn status(talos: &TalosState, vmid: u32) -> Result<EtcdMemberStatus, Status> {
    let (cluster, membership) = local_member(talos, vmid, "etcd status")
        .map_err(machined_error("failed to query etcd status"))?;
    let own = &cluster.members[&membership.member];
    let leader = talos.leader_of(membership);
    let mut errors = vec![];
    if leader.is_none() {
        errors.push("etcdserver: no leader".to_owned());
    }
    // Every member reports the alarms of all members.
    errors.extend(cluster.alarms.iter().map(|id| format!("memberID:{id} alarm:NOSPACE ")));
    let revision = cluster.store.revision();
    let in_use = (EMPTY_FILE_SIZE + cluster.store.size()).next_multiple_of(PAGE);
    let waste = revision.saturating_sub(own.defragmented) * UNUSED_BYTES_PER_CHANGE;
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let index = cluster.raft_index();
    let version = etcd_of(talos, vmid);
    Ok(EtcdMemberStatus {
        storage_version: storage_version(version),
        protocol_version: version.to_owned(),
        db_size: signed((in_use + waste).next_multiple_of(PAGE)),
        db_size_in_use: signed(in_use),
        leader: leader.unwrap_or_default(),
        raft_index: index,
        raft_term: cluster.term,
        raft_applied_index: index,
        errors,
        is_learner: own.is_learner,
        member_id: membership.member,
    })
}

/// etcd version of a node.
fn etcd_of(talos: &TalosState, vmid: u32) -> &'static str {
    talos.nodes.get(&vmid).map_or("3.5.0", |node| version(&node.version))
}

pub(crate) fn alarms(talos: &TalosState, vmid: u32) -> Result<Vec<EtcdMemberAlarm>, Status> {
    let (cluster, _) = with_leader(talos, vmid, "etcd alarm list", TIMED_OUT)
        .map_err(machined_error("failed to list etcd alarms"))?;
    Ok(alarms_of(cluster))
}

fn alarms_of(cluster: &EtcdCluster) -> Vec<EtcdMemberAlarm> {
    let alarm = |id: &u64| EtcdMemberAlarm { member_id: *id, alarm: AlarmType::Nospace.into() };
    cluster.alarms.iter().map(alarm).collect()
}

/// Clears all alarms, and returns the alarms that were set. A member whose disk is still full raises its alarm again with the
/// next write. Kubernetes writes all the time, so the alarm of such a member is simply kept.
pub(crate) fn disarm(
    simulation: &Arc<Simulation>,
    vmid: u32,
) -> Result<Vec<EtcdMemberAlarm>, Status> {
    simulation.change(|talos| {
        let is_old = talos.nodes.get(&vmid).is_some_and(|node| !node.version.is_at_least(13));
        let call = if is_old { "etcd alarm list" } else { "etcd alarm disarm" };
        let (cluster, membership) = with_leader(talos, vmid, call, TIMED_OUT)
            .map_err(machined_error("failed to disarm etcd alarm"))?;
        let raised = alarms_of(cluster);
        let is_full = |member: &super::Member| {
            member.is_up
                && talos.nodes.get(&member.vmid).is_some_and(|node| node.faults.disk_is_full)
        };
        let full = cluster.members.iter().filter(|(_, member)| is_full(member));
        let alarms = full.map(|(id, _)| *id).collect();
        if let Some(cluster) = talos.etcds.get_mut(&membership.cluster) {
            cluster.alarms = alarms;
        }
        Ok(raised)
    })
}

/// Shrinks the database file of this member to the size of its content.
pub(crate) fn defragment(simulation: &Arc<Simulation>, vmid: u32) -> Result<(), Status> {
    simulation.change(|talos| {
        let (_, membership) = voting_member(talos, vmid, "etcd defragment")
            .map_err(machined_error("failed to defragment etcd"))?;
        if let Some(cluster) = talos.etcds.get_mut(&membership.cluster) {
            let revision = cluster.store.revision();
            if let Some(own) = cluster.members.get_mut(&membership.member) {
                own.defragmented = revision;
            }
        }
        Ok(())
    })
}

/// Snapshot of the database, followed by its checksum.
pub(crate) fn snapshot(talos: &TalosState, vmid: u32) -> Result<Vec<u8>, Status> {
    let (cluster, _) = local_member(talos, vmid, "etcd snapshot")
        .map_err(machined_error("failed reading etcd snapshot"))?;
    let database = file::database(cluster, etcd_of(talos, vmid)).map_err(Status::unknown)?;
    Ok(file::with_checksum(database))
}

/// Database file on the disk of this node. The file exists even if etcd does not run.
pub(crate) fn database(talos: &TalosState, vmid: u32) -> Option<Vec<u8>> {
    let membership = talos.nodes.get(&vmid)?.etcd?;
    let cluster = talos.etcds.get(&membership.cluster)?;
    file::database(cluster, etcd_of(talos, vmid)).ok()
}

/// Stores an uploaded snapshot for a later bootstrap.
pub(crate) fn recover(
    simulation: &Arc<Simulation>,
    vmid: u32,
    boot: u64,
    bytes: Vec<u8>,
) -> Result<(), Status> {
    let taken = simulation.change_node(vmid, boot, |node| {
        // The snapshot is written to /var, which is mounted when containers can run.
        if !node.services.get("cri").is_some_and(crate::service::Service::is_healthy) {
            let text = "etcd service is not ready for recovery yet";
            return Err(Status::failed_precondition(text));
        }
        if !node.is_control_plane() {
            let text = "etcd recover is only available on control plane nodes";
            return Err(Status::unimplemented(text));
        }
        node.snapshot = Some(bytes);
        Ok(())
    });
    taken.unwrap_or_else(|| Err(Status::unavailable("node is gone")))
}

/// Removes a member from the cluster.
pub(crate) fn remove(simulation: &Arc<Simulation>, vmid: u32, member: u64) -> Result<(), Status> {
    simulation.change(|talos| {
        let failed = |reason: &str| format!("failed to remove member {member}: {reason}");
        let gone = |status: Status| match status.code() {
            Code::Unknown => Status::unknown(failed(status.message())),
            _ => status,
        };
        let removing = machined_error("failed to remove member");
        let (cluster, membership) = with_leader(talos, vmid, "etcd remove member", NO_LEADER)
            .map_err(|status| removing(gone(status)))?;
        if !cluster.members.contains_key(&member) {
            return Err(Status::not_found(failed("etcdserver: member not found")));
        }
        remove_member(talos, Membership { cluster: membership.cluster, member })
            .map_err(|reason| removing(Status::unknown(failed(reason))))
    })
}

/// Removes this member from the cluster, and deletes its data.
pub(crate) fn leave(simulation: &Arc<Simulation>, vmid: u32, boot: u64) -> Result<(), Status> {
    simulation.change(|talos| {
        let leaving = machined_error("failed to leave cluster");
        let (_, membership) =
            with_leader(talos, vmid, "etcd leave", NO_LEADER).map_err(&leaving)?;
        remove_member(talos, membership).map_err(|reason| {
            let Membership { member, .. } = membership;
            let problem = format!("failed to remove member {member}: {reason}");
            leaving(Status::unknown(format!("1 error(s) occurred:\n\t{problem}")))
        })?;
        if let Some(node) = talos.of_boot(vmid, boot) {
            node.etcd = None;
            node.revision += 1;
        }
        Ok::<_, Status>(())
    })?;
    let disk =
        simulation.look(|talos| talos.nodes.get(&vmid).and_then(|node| node.system_disk.clone()));
    if let Some(disk) = disk {
        simulation.hypervisor.write_disk(&disk, |written| {
            written.ephemeral.get_or_insert_default().etcd = None;
        });
    }
    Ok(())
}

fn remove_member(talos: &mut TalosState, removed: Membership) -> Result<(), &'static str> {
    // The remaining members must have quorum, because etcd rejects a removal that would stop the cluster.
    if let Some(cluster) = talos.etcds.get(&removed.cluster) {
        let left: Vec<_> = cluster
            .members
            .iter()
            .filter(|(id, member)| **id != removed.member && !member.is_learner)
            .collect();
        let up = left.iter().filter(|(_, member)| member.is_up).count();
        let is_learner = cluster.members.get(&removed.member).is_some_and(|m| m.is_learner);
        if !is_learner && up < left.len() / 2 + 1 {
            return Err("etcdserver: re-configuration failed due to not enough started members");
        }
    }
    if let Some(cluster) = talos.etcds.get_mut(&removed.cluster) {
        cluster.members.remove(&removed.member);
        cluster.turns += 1;
        if cluster.leader == Some(removed.member) {
            cluster.leader = None;
        }
    }
    Ok(())
}

/// Transfers the leadership, and returns the name of the new leader; `None` if this member is not the leader.
pub(crate) fn forfeit(simulation: &Arc<Simulation>, vmid: u32) -> Result<Option<String>, Status> {
    simulation.change(|talos| {
        let forfeiting = machined_error("failed to forfeit leadership");
        let (cluster, membership) = with_leader(talos, vmid, "etcd forfeit leadership", NO_LEADER)
            .map_err(|status| forfeiting(machined_error("failed to list etcd members")(status)))?;
        if cluster.leader != Some(membership.member) {
            return Ok(None);
        }
        let next = cluster.members.iter().find(|(id, member)| {
            let other = Membership { cluster: membership.cluster, member: **id };
            **id != membership.member && !member.is_learner && talos.has_quorum(other)
        });
        let Some((next, member)) = next else {
            let reason = match cluster.members.len() {
                1 => "cannot forfeit leadership, only one member",
                _ => TIMED_OUT,
            };
            return Err(forfeiting(Status::unknown(reason)));
        };
        let (next, name) = (*next, member.name.clone());
        talos.make_leader(Membership { cluster: membership.cluster, member: next });
        Ok(Some(name))
    })
}
