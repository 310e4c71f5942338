//! Who hears whom, and whether that is enough.

use super::{EtcdCluster, Member};
use crate::talos_state::{Membership, TalosState};

impl EtcdCluster {
    fn voters(&self) -> impl Iterator<Item = (u64, &Member)> {
        self.members.iter().filter(|(_, member)| !member.is_learner).map(|(id, m)| (*id, m))
    }

    /// How many voters must agree.
    fn majority(&self) -> usize {
        self.voters().count() / 2 + 1
    }
}

impl TalosState {
    /// Whether this member runs and hears enough voters, itself among them, to get anything done.
    pub(crate) fn has_quorum(&self, membership: Membership) -> bool {
        let Some(cluster) = self.etcds.get(&membership.cluster) else { return false };
        let Some(own) = cluster.members.get(&membership.member) else { return false };
        let heard = cluster.voters().filter(|(_, other)| {
            other.is_up && (other.vmid == own.vmid || self.is_connected(own.vmid, other.vmid))
        });
        own.is_up && heard.count() >= cluster.majority()
    }

    /// Whether this member can answer for the cluster: it votes, and there is a leader it hears.
    pub(crate) fn serves(&self, membership: Membership) -> bool {
        let Some(cluster) = self.etcds.get(&membership.cluster) else { return false };
        let own = cluster.members.get(&membership.member);
        own.is_some_and(|own| !own.is_learner)
            && self.leader_of(membership).is_some()
            && self.has_quorum(membership)
    }

    /// Whether it also takes what is new: while the disk of any member is full, none of them does.
    pub(crate) fn takes_writes(&self, membership: Membership) -> bool {
        let cluster = self.etcds.get(&membership.cluster);
        cluster.is_some_and(|cluster| cluster.alarms.is_empty()) && self.serves(membership)
    }

    /// The leader that this member follows.
    pub(crate) fn leader_of(&self, membership: Membership) -> Option<u64> {
        let cluster = self.etcds.get(&membership.cluster)?;
        let leader = cluster.leader?;
        let own = cluster.members.get(&membership.member)?;
        let other = cluster.members.get(&leader)?;
        let is_heard = own.vmid == other.vmid || self.is_connected(own.vmid, other.vmid);
        let leads = other.is_up
            && self.has_quorum(Membership { cluster: membership.cluster, member: leader });
        (is_heard && leads).then_some(leader)
    }

    /// Whether the cluster's leader is none any more, and this member could be the next.
    pub(crate) fn may_campaign(&self, membership: Membership) -> bool {
        let Some(cluster) = self.etcds.get(&membership.cluster) else { return false };
        let own = cluster.members.get(&membership.member);
        let is_voter = own.is_some_and(|own| !own.is_learner);
        let leads = cluster.leader.is_some_and(|leader| {
            self.has_quorum(Membership { cluster: membership.cluster, member: leader })
        });
        is_voter && !leads && self.has_quorum(membership)
    }

    /// Makes a member the leader, in a new term.
    pub(crate) fn lead(&mut self, membership: Membership) {
        if let Some(cluster) = self.etcds.get_mut(&membership.cluster) {
            cluster.leader = Some(membership.member);
            cluster.term += 1;
            cluster.turns += 1;
        }
    }
}
