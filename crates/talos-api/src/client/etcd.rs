//! etcd calls. The etcd member of this node answers them.

use std::fmt;
use std::io::Write;

use aws_lc_rs::digest::{Context, SHA256, SHA256_OUTPUT_LEN};
use tonic::codegen::tokio_stream;

use super::Client;
use super::files::{Bytes, CopyError};
use crate::error::TalosError;
use crate::proto::common::Data;
use crate::proto::machine::etcd_member_alarm::AlarmType;
use crate::proto::machine::{
    EtcdForfeitLeadershipRequest, EtcdLeaveClusterRequest, EtcdMemberAlarm, EtcdMemberListRequest,
    EtcdRemoveMemberByIdRequest, EtcdSnapshotRequest,
};

pub use crate::proto::machine::{EtcdMember as Member, EtcdMemberStatus as MemberStatus};

/// Alarm of an etcd member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    NoSpace,
    Corrupt,
    /// Alarm of a type that is not listed here.
    Other,
}

/// Reason why a file is not a valid etcd snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    #[error("the snapshot is incomplete: {0} bytes are not a database with a checksum")]
    Length(usize),
    #[error("the snapshot is damaged: its checksum does not match")]
    Checksum,
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSpace => "the database is full (NOSPACE)",
            Self::Corrupt => "the database is corrupt (CORRUPT)",
            Self::Other => "an unknown alarm",
        })
    }
}

/// Verifies a snapshot while it is copied. A snapshot is a database, which consists of pages, followed by the SHA-256
/// checksum of the database.
#[derive(Clone)]
pub struct SnapshotCheck {
    sum: Context,
    length: usize,
    /// Last bytes received. They may be the checksum.
    tail: Vec<u8>,
}

impl Default for SnapshotCheck {
    fn default() -> Self {
        Self { sum: Context::new(&SHA256), length: 0, tail: vec![] }
    }
}

impl SnapshotCheck {
    pub fn update(&mut self, piece: &[u8]) {
        self.length += piece.len();
        self.tail.extend_from_slice(piece);
        let sure = self.tail.len().saturating_sub(SHA256_OUTPUT_LEN);
        self.sum.update(&self.tail[..sure]);
        self.tail.drain(..sure);
    }

    pub fn finish(self) -> Result<(), SnapshotError> {
        const PAGE: usize = 512;
        if self.length % PAGE != SHA256_OUTPUT_LEN || self.length < PAGE {
            return Err(SnapshotError::Length(self.length));
        }
        if self.sum.finish().as_ref() == self.tail { Ok(()) } else { Err(SnapshotError::Checksum) }
    }
}

impl fmt::Debug for SnapshotCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SnapshotCheck({} bytes)", self.length)
    }
}

/// Verifies a complete snapshot.
pub fn check_snapshot(snapshot: &[u8]) -> Result<(), SnapshotError> {
    let mut check = SnapshotCheck::default();
    check.update(snapshot);
    check.finish()
}

/// Number of bytes of a snapshot per message.
const PIECE: usize = 64 << 10;

impl Client {
    /// Members of etcd, as reported by the member of this node. While etcd is down, this call gets no answer, so
    /// [`EtcdState::read`] checks the service first.
    ///
    /// [`EtcdState::read`]: crate::EtcdState::read
    pub async fn etcd_members(&self) -> Result<Vec<Member>, TalosError> {
        let mut machine = self.machine();
        let answer = machine.etcd_member_list(EtcdMemberListRequest { query_local: true });
        let found = self.of_etcd().ask_one("EtcdMemberList", answer, |all| all.messages).await?;
        Ok(found.members)
    }

    pub async fn etcd_status(&self) -> Result<MemberStatus, TalosError> {
        let mut machine = self.machine();
        let answer = machine.etcd_status(());
        let found = self.of_etcd().ask_one("EtcdStatus", answer, |all| all.messages).await?;
        Ok(found.member_status.unwrap_or_default())
    }

    /// Active alarms, by member ID.
    pub async fn etcd_alarms(&self) -> Result<Vec<(u64, Alarm)>, TalosError> {
        let mut machine = self.machine();
        let answer = machine.etcd_alarm_list(());
        let found = self.of_etcd().ask("EtcdAlarmList", answer).await?.messages;
        Ok(alarms(found.into_iter().flat_map(|one| one.member_alarms)))
    }

    /// Clears the alarms and returns them.
    pub async fn etcd_disarm(&self) -> Result<Vec<(u64, Alarm)>, TalosError> {
        let mut machine = self.machine();
        let answer = machine.etcd_alarm_disarm(());
        let found = self.ask("EtcdAlarmDisarm", answer).await?.messages;
        Ok(alarms(found.into_iter().flat_map(|one| one.member_alarms)))
    }

    /// Defragments the database of this node. Defragmenting slows the member down, so call this for one node at a time.
    pub async fn etcd_defragment(&self) -> Result<(), TalosError> {
        let mut machine = self.machine();
        self.at_work().ask("EtcdDefragment", machine.etcd_defragment(())).await.map(|_| ())
    }

    /// Removes a member whose node no longer exists. Fails with `NotFound` if the member does not exist.
    pub async fn etcd_remove_member(&self, id: u64) -> Result<(), TalosError> {
        let mut machine = self.machine();
        let request = EtcdRemoveMemberByIdRequest { member_id: id };
        self.ask("EtcdRemoveMemberByID", machine.etcd_remove_member_by_id(request))
            .await
            .map(|_| ())
    }

    /// Removes the member of this node from the etcd cluster and deletes the data of the member.
    pub async fn etcd_leave(&self) -> Result<(), TalosError> {
        let mut machine = self.machine();
        self.ask("EtcdLeaveCluster", machine.etcd_leave_cluster(EtcdLeaveClusterRequest {}))
            .await
            .map(|_| ())
    }

    /// Moves the leadership from the member of this node to another member, and returns that member.
    pub async fn etcd_forfeit_leadership(&self) -> Result<Option<String>, TalosError> {
        let mut machine = self.machine();
        let answer = machine.etcd_forfeit_leadership(EtcdForfeitLeadershipRequest {});
        let found = self.ask("EtcdForfeitLeadership", answer).await?.messages;
        Ok(found.into_iter().map(|one| one.member).find(|member| !member.is_empty()))
    }

    /// Streams a snapshot. The stream of an incomplete snapshot may end without an error, so verify it with a
    /// [`SnapshotCheck`].
    pub async fn etcd_snapshot(&self) -> Result<Bytes, TalosError> {
        let mut machine = self.machine();
        self.bytes("EtcdSnapshot", machine.etcd_snapshot(EtcdSnapshotRequest {})).await
    }

    /// Copies the database file of this node's member and returns the number of bytes. This is for a cluster without
    /// quorum, because such a cluster cannot make a snapshot. The file has no checksum, so
    /// [`Client::bootstrap_from_snapshot`] must skip the check.
    pub async fn etcd_database(&self, out: impl Write) -> Result<u64, CopyError> {
        self.copy_file("/var/lib/etcd/member/snap/db", out).await
    }

    /// Sends a snapshot to the node, for [`Client::bootstrap_from_snapshot`].
    pub async fn etcd_recover(&self, snapshot: &[u8]) -> Result<(), TalosError> {
        let pieces: Vec<Data> = snapshot
            .chunks(PIECE)
            .map(|piece| Data { bytes: piece.to_vec(), metadata: None })
            .collect();
        let mut machine = self.machine();
        let answer = machine.etcd_recover(tokio_stream::iter(pieces));
        self.at_work().ask("EtcdRecover", answer).await.map(|_| ())
    }
}

fn alarms(alarms: impl Iterator<Item = EtcdMemberAlarm>) -> Vec<(u64, Alarm)> {
    let known = |alarm: EtcdMemberAlarm| {
        let kind = match AlarmType::try_from(alarm.alarm) {
            Ok(AlarmType::None) => return None,
            Ok(AlarmType::Nospace) => Alarm::NoSpace,
            Ok(AlarmType::Corrupt) => Alarm::Corrupt,
            Err(_) => Alarm::Other,
        };
        Some((alarm.member_id, kind))
    };
    alarms.filter_map(known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::digest::digest;

    #[test]
    fn a_snapshot_carries_its_checksum() {
        let mut snapshot = vec![7; 4096];
        snapshot.extend(digest(&SHA256, &snapshot).as_ref());
        assert_eq!(check_snapshot(&snapshot), Ok(()));
        for size in [1, 31, 33, 600] {
            let mut check = SnapshotCheck::default();
            snapshot.chunks(size).for_each(|piece| check.update(piece));
            assert_eq!(check.finish(), Ok(()), "in pieces of {size}");
        }
        assert_eq!(check_snapshot(&snapshot[..3000]), Err(SnapshotError::Length(3000)));
        assert_eq!(check_snapshot(&snapshot[..544]), Err(SnapshotError::Checksum));
        snapshot[5] ^= 1;
        assert_eq!(check_snapshot(&snapshot), Err(SnapshotError::Checksum));
        assert_eq!(check_snapshot(&[0; 32]), Err(SnapshotError::Length(32)));
    }
}
