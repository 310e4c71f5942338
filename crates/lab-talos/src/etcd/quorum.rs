//! Quorum and leadership. They are computed from the members that can reach each other.

use super::{EtcdCluster, Member};
use crate::talos_state::{Membership, TalosState};

impl EtcdCluster {
    fn voters(&self) -> impl Iterator<Item = (u64, &Member)> {
        self.members.iter().filter(|(_, member)| !member.is_learner).map(|(id, m)| (*id, m))
    }

    /// Number of voters that form a majority.
    fn majority(&self) -> usize {
        self.voters().count() / 2 + 1
    }
}

impl TalosState {
    /// Whether this member runs, and reaches a majority of the voters. The member itself counts as reached.
    pub(crate) fn has_quorum(&self, membership: Membership) -> bool {
        let Some(cluster) = self.etcds.get(&membership.cluster) else { return false };
        let Some(own) = cluster.members.get(&membership.member) else { return false };
        let reachable = cluster.voters().filter(|(_, other)| {
            other.is_up && (other.vmid == own.vmid || self.is_connected(own.vmid, other.vmid))
        });
        own.is_up && reachable.count() >= cluster.majority()
    }

    /// Whether this member can answer calls: it is a voter, and it reaches a leader.
    pub(crate) fn serves(&self, membership: Membership) -> bool {
        let Some(cluster) = self.etcds.get(&membership.cluster) else { return false };
        let own = cluster.members.get(&membership.member);
        own.is_some_and(|own| !own.is_learner)
            && self.leader_of(membership).is_some()
            && self.has_quorum(membership)
    }

    /// Whether this member also accepts writes. No member does if any member has a disk space alarm.
    pub(crate) fn accepts_writes(&self, membership: Membership) -> bool {
        let cluster = self.etcds.get(&membership.cluster);
        cluster.is_some_and(|cluster| cluster.alarms.is_empty()) && self.serves(membership)
    }

    /// Leader that this member follows; `None` if the member reaches no leader.
    pub(crate) fn leader_of(&self, membership: Membership) -> Option<u64> {
        let cluster = self.etcds.get(&membership.cluster)?;
        let leader = cluster.leader?;
        let own = cluster.members.get(&membership.member)?;
        let other = cluster.members.get(&leader)?;
        let is_reachable = own.vmid == other.vmid || self.is_connected(own.vmid, other.vmid);
        let leads = other.is_up
            && self.has_quorum(Membership { cluster: membership.cluster, member: leader });
        (is_reachable && leads).then_some(leader)
    }

    /// Whether the cluster has no working leader, and this member can become the leader.
    pub(crate) fn may_campaign(&self, membership: Membership) -> bool {
        let Some(cluster) = self.etcds.get(&membership.cluster) else { return false };
        let own = cluster.members.get(&membership.member);
        let is_voter = own.is_some_and(|own| !own.is_learner);
        let leads = cluster.leader.is_some_and(|leader| {
            self.has_quorum(Membership { cluster: membership.cluster, member: leader })
        });
        is_voter && !leads && self.has_quorum(membership)
    }

    /// Makes a member the leader in a new term.
    pub(crate) fn make_leader(&mut self, membership: Membership) {
        if let Some(cluster) = self.etcds.get_mut(&membership.cluster) {
            cluster.leader = Some(membership.member);
            cluster.term += 1;
            cluster.turns += 1;
        }
    }
}
