//! Whether a member has been removed from etcd or can be removed, according to the other members.

use std::collections::BTreeSet;

use talmox_talos_api::client::{Member, MemberStatus};
use talmox_talos_api::quorum::EtcdView;

/// State of a member in the lists of the other members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MemberState {
    /// No healthy member lists the member, and etcd has a quorum.
    Removed,
    /// The healthy members list the member with this id, and etcd keeps its quorum without it.
    Removable { id: u64 },
    /// The member cannot be removed, because etcd would lose its quorum, or because its state is not known. The text is the
    /// reason.
    Kept(String),
}

impl MemberState {
    /// Judges a member by the views of the other members. Members that do not report are not healthy.
    pub(super) fn of(member: &str, views: &[EtcdView]) -> Self {
        let healthy: Vec<(&MemberStatus, &[Member])> = views.iter().filter_map(healthy).collect();
        let Some(&(_, first)) = healthy.first() else {
            return Self::Kept(format!("no other etcd member is healthy{}", problem(views)));
        };
        let id_in = |members: &[Member]| {
            members.iter().find(|one| one.hostname == member).map(|one| one.id)
        };
        let id = id_in(first);
        if healthy.iter().any(|&(_, members)| id_in(members) != id) {
            return Self::Kept("the etcd members do not report the same members yet".to_owned());
        }
        let voters: BTreeSet<u64> = first
            .iter()
            .filter(|one| !one.is_learner && Some(one.id) != id)
            .map(|one| one.id)
            .collect();
        // Two addresses may lead to the same member, so each member is counted once.
        let up: BTreeSet<u64> = healthy.iter().map(|(status, _)| status.member_id).collect();
        let up = up.intersection(&voters).count();
        if up * 2 <= voters.len() {
            let reason = format!(
                "etcd would lose its quorum: {up} of the {} other members are healthy{}",
                voters.len(),
                problem(views)
            );
            return Self::Kept(reason);
        }
        id.map_or(Self::Removed, |id| Self::Removable { id })
    }
}

/// Status and member list of a healthy member. None if the member is not healthy.
fn healthy(view: &EtcdView) -> Option<(&MemberStatus, &[Member])> {
    let (Ok(status), Ok(members)) = (&view.status, &view.members) else { return None };
    let is_healthy = status.leader != 0 && !status.is_learner && status.errors.is_empty();
    (is_healthy && !members.is_empty()).then_some((status, members.as_slice()))
}

/// Whether a view comes from a healthy member.
pub(super) fn is_healthy(view: &EtcdView) -> bool {
    healthy(view).is_some()
}

/// The first problem of a member, for the end of a reason.
fn problem(views: &[EtcdView]) -> String {
    let problem = views.iter().find_map(|view| {
        let why = match (&view.status, &view.members) {
            (Err(why), _) | (_, Err(why)) => why.to_string(),
            (Ok(status), _) if status.leader == 0 => "it has no leader".to_owned(),
            (Ok(status), _) if status.is_learner => "it is still a learner".to_owned(),
            (Ok(status), _) => status.errors.first()?.clone(),
        };
        Some(format!(" ({}: {why})", view.name))
    });
    problem.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use talmox_talos_api::quorum::EtcdUnknown;

    use super::*;

    /// The members with these ids, and the views of those that answer.
    fn views(members: &[u64], answering: &[u64]) -> Vec<EtcdView> {
        let member =
            |id: &u64| Member { id: *id, hostname: format!("cp-{id}"), ..Member::default() };
        let members: Vec<Member> = members.iter().map(member).collect();
        let view = |id: &u64| EtcdView {
            name: format!("cp-{id}"),
            service: Ok(None),
            members: Ok(members.clone()),
            status: Ok(MemberStatus { leader: 1, member_id: *id, ..MemberStatus::default() }),
            alarms: Ok(vec![]),
        };
        answering.iter().map(view).collect()
    }

    #[test]
    fn a_member_goes_if_most_of_the_others_are_healthy() {
        let of = |members: &[u64], up: &[u64]| MemberState::of("cp-3", &views(members, up));
        assert_eq!(of(&[1, 2, 3], &[1, 2]), MemberState::Removable { id: 3 });
        assert_eq!(of(&[1, 3], &[1]), MemberState::Removable { id: 3 });
        assert_eq!(of(&[1, 2, 3, 4, 5], &[1, 2, 4]), MemberState::Removable { id: 3 });
        let lost = "etcd would lose its quorum: 1 of the 2 other members are healthy";
        assert_eq!(of(&[1, 2, 3], &[1]), MemberState::Kept(lost.to_owned()));
        // Both addresses lead to the same member.
        assert_eq!(of(&[1, 2, 3], &[1, 1]), MemberState::Kept(lost.to_owned()));
        assert_eq!(
            of(&[1, 2, 3], &[]),
            MemberState::Kept("no other etcd member is healthy".to_owned())
        );
    }

    #[test]
    fn a_member_is_removed_once_no_healthy_member_lists_it() {
        assert_eq!(MemberState::of("cp-3", &views(&[1, 2], &[1, 2])), MemberState::Removed);
        let mut mixed = views(&[1, 2, 3], &[1]);
        mixed.extend(views(&[1, 2], &[2]));
        let differ = "the etcd members do not report the same members yet".to_owned();
        assert_eq!(MemberState::of("cp-3", &mixed), MemberState::Kept(differ));
        // Without a quorum, the member list proves nothing.
        let alone = views(&[1, 2], &[1]);
        assert!(matches!(MemberState::of("cp-3", &alone), MemberState::Kept(_)));
    }

    #[test]
    fn a_member_without_a_leader_or_with_an_error_is_not_healthy() {
        let mut all = views(&[1, 2, 3], &[1, 2]);
        all[1].status.as_mut().unwrap().leader = 0;
        let lost = "etcd would lose its quorum: 1 of the 2 other members are healthy (cp-2: it has no leader)";
        assert_eq!(MemberState::of("cp-3", &all), MemberState::Kept(lost.to_owned()));
        all[1].status = Err(EtcdUnknown::Unreachable("it did not answer".to_owned()));
        let lost = "etcd would lose its quorum: 1 of the 2 other members are healthy (cp-2: it did not answer)";
        assert_eq!(MemberState::of("cp-3", &all), MemberState::Kept(lost.to_owned()));
    }
}
