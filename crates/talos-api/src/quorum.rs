//! Check whether etcd keeps its quorum while one control plane is down.
//!
//! The upgrade services of Talos 1.13 and later do not check the quorum, so the client must check it.

use std::collections::BTreeSet;
use std::fmt;

use tokio::task::JoinSet;
use tracing::Instrument as _;

use crate::client::{Alarm, Client, Health, Member, MemberStatus, Service};
use crate::error::TalosError;
use crate::etcd_state::ETCD;

/// Observed state of etcd on one control plane. Each field is a value, or the reason why the value is unknown.
#[derive(Clone, Debug, PartialEq)]
pub struct EtcdView {
    /// Name of the control plane.
    pub name: String,
    pub service: Result<Option<Service>, EtcdUnknown>,
    /// All etcd members, as reported by the member of this control plane.
    pub members: Result<Vec<Member>, EtcdUnknown>,
    pub status: Result<MemberStatus, EtcdUnknown>,
    pub alarms: Result<Vec<(u64, Alarm)>, EtcdUnknown>,
}

/// Why a value of etcd on a control plane is unknown, with the text of the error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EtcdUnknown {
    /// The node did not answer.
    Unreachable(String),
    /// The node answered, and etcd does not run there.
    NotRunning(String),
    /// The node answered with an error, or its answer is unclear.
    Unreadable(String),
}

impl EtcdUnknown {
    fn of(error: &TalosError) -> Self {
        match error {
            TalosError::Unreachable { .. } | TalosError::Lost { .. } | TalosError::Late { .. } => {
                Self::Unreachable(error.reason())
            }
            TalosError::NotYet { .. } | TalosError::No { .. } | TalosError::Unreadable { .. } => {
                Self::Unreadable(error.reason())
            }
        }
    }

    /// Text of the error.
    pub fn reason(&self) -> &str {
        match self {
            Self::Unreachable(reason) | Self::NotRunning(reason) | Self::Unreadable(reason) => {
                reason
            }
        }
    }
}

impl fmt::Display for EtcdUnknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

/// Observes etcd on all control planes at the same time. The views are in the order of `control_planes`.
pub async fn look(control_planes: &[(String, Client)]) -> Vec<EtcdView> {
    let mut tasks = JoinSet::new();
    for (at, (name, client)) in control_planes.iter().cloned().enumerate() {
        tasks.spawn(async move { (at, look_at(name, &client).await) }.in_current_span());
    }
    let mut views = tasks.join_all().await;
    views.sort_by_key(|(at, _)| *at);
    views.into_iter().map(|(_, view)| view).collect()
}

async fn look_at(name: String, client: &Client) -> EtcdView {
    let why = |error: TalosError| EtcdUnknown::of(&error);
    let service = match client.services().await {
        Ok(all) => Ok(all.into_iter().find(|service| service.id == ETCD)),
        // The node would not answer further requests either. One reason and one timeout are enough.
        Err(error) => {
            let why = EtcdUnknown::of(&error);
            return EtcdView {
                name,
                service: Err(why.clone()),
                members: Err(why.clone()),
                status: Err(why.clone()),
                alarms: Err(why),
            };
        }
    };
    // An etcd that is down never answers. The message of its service contains the reason.
    if let Ok(found) = &service
        && !found.as_ref().is_some_and(Service::is_running)
    {
        let down = found.as_ref().map_or("etcd is not running".to_owned(), Service::describe);
        let down = EtcdUnknown::NotRunning(down);
        return EtcdView {
            name,
            service,
            members: Err(down.clone()),
            status: Err(down.clone()),
            alarms: Err(down),
        };
    }
    let (members, status, alarms) =
        tokio::join!(client.etcd_members(), client.etcd_status(), client.etcd_alarms());
    EtcdView {
        name,
        service,
        members: members.map_err(why),
        status: status.map_err(why),
        alarms: alarms.map_err(why),
    }
}

/// Reasons against taking one control plane down; empty if this is safe.
///
/// `views` are all control planes of the cluster. A single control plane may go down, because it has no quorum to keep.
/// In a cluster with two control planes, neither may go down.
pub fn objections(views: &[EtcdView]) -> Vec<String> {
    let mut objections: Vec<String> = views.iter().flat_map(of_one).collect();
    let Some(members) = views.iter().find_map(|view| view.members.as_ref().ok()) else {
        objections.push("no control plane reports the members of etcd".to_owned());
        return objections;
    };
    objections.extend(of_members(members, views));
    objections
}

/// Reasons against taking down one control plane whose own member may be unhealthy or unreachable; empty if this is
/// safe.
///
/// `others` are all other control planes of the cluster. They must be healthy and form a majority of the voting
/// members.
pub fn objections_to_loss(others: &[EtcdView]) -> Vec<String> {
    let mut objections: Vec<String> = others.iter().flat_map(of_one).collect();
    let Some(members) = others.iter().find_map(|view| view.members.as_ref().ok()) else {
        objections.push("no other control plane reports the members of etcd".to_owned());
        return objections;
    };
    let voters = members.iter().filter(|member| !member.is_learner).count();
    // Two addresses may lead to the same member, so each member is counted once.
    let healthy = others.iter().filter(|view| of_one(view).is_empty());
    let healthy: BTreeSet<u64> =
        healthy.filter_map(|view| Some(view.status.as_ref().ok()?.member_id)).collect();
    let healthy = healthy.len();
    if healthy <= voters / 2 {
        objections
            .push(format!("only {healthy} of {voters} voting etcd members would stay healthy"));
    }
    objections
}

/// Problems of one etcd member, as reported by its node.
fn of_one(view: &EtcdView) -> Vec<String> {
    let name = &view.name;
    let service = match &view.service {
        Err(why) => return vec![format!("{name}: {why}")],
        Ok(None) => return vec![format!("{name}: etcd is not running")],
        Ok(Some(service)) => service,
    };
    if !service.is_running() || service.health != Health::Good {
        return vec![format!("{name}: {}", service.describe())];
    }
    let mut found = vec![];
    match &view.status {
        Err(why) => found.push(format!("{name}: {why}")),
        Ok(status) => {
            if status.leader == 0 {
                found.push(format!("{name}: its etcd member has no leader"));
            }
            if status.is_learner {
                found.push(format!("{name}: its etcd member is still a learner"));
            }
            found.extend(status.errors.iter().map(|error| format!("{name}: {error}")));
        }
    }
    match &view.alarms {
        Err(why) => found.push(format!("{name}: {why}")),
        // Every member reports the alarms of all members. Each alarm is listed once, for its own node.
        Ok(alarms) => {
            let own = view.status.as_ref().map_or(0, |status| status.member_id);
            let own = alarms.iter().filter(|(member, _)| *member == own);
            found
                .extend(own.map(|(_, alarm)| format!("{name}: etcd has an active alarm: {alarm}")));
        }
    }
    found
}

/// Problems of the list of members.
fn of_members(members: &[Member], views: &[EtcdView]) -> Vec<String> {
    let ids = |members: &[Member]| members.iter().map(|one| one.id).collect::<BTreeSet<u64>>();
    let mut found = vec![];
    for view in views {
        match &view.members {
            Ok(theirs) if ids(theirs) != ids(members) => {
                found.push(format!(
                    "{}: its etcd member list differs from that of the others",
                    view.name
                ));
            }
            // If the service or the status of the member has a problem, that problem is listed instead, because it is
            // more detailed.
            Err(why) if of_one(view).is_empty() => found.push(format!("{}: {why}", view.name)),
            _ => {}
        }
    }
    for member in members {
        if member.client_urls.is_empty() {
            found.push(format!("the member {} has not started", title(member)));
        } else if member.is_learner {
            found.push(format!("the member {} is still a learner", title(member)));
        }
        let is_seen =
            |view: &EtcdView| view.status.as_ref().is_ok_and(|one| one.member_id == member.id);
        if views.iter().all(|view| view.status.is_ok()) && !views.iter().any(is_seen) {
            found
                .push(format!("the member {} does not belong to any control plane", title(member)));
        }
    }
    let leaders: BTreeSet<u64> =
        views.iter().filter_map(|view| Some(view.status.as_ref().ok()?.leader)).collect();
    if leaders.len() > 1 {
        found.push("the etcd members report different leaders".to_owned());
    }
    match members.len() {
        0 => found.push("etcd has no members".to_owned()),
        2 => found.push("etcd has two members and loses its quorum without one of them".to_owned()),
        _ => {}
    }
    found
}

/// Hostname of the member, or its ID while it has no hostname.
fn title(member: &Member) -> String {
    if member.hostname.is_empty() { format!("{:016x}", member.id) } else { member.hostname.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(count: u64) -> Vec<Member> {
        let member = |id| Member {
            id,
            hostname: format!("cp-{id}"),
            client_urls: vec![format!("https://10.0.0.{id}:2379")],
            ..Member::default()
        };
        (1..=count).map(member).collect()
    }

    fn well(count: u64) -> Vec<EtcdView> {
        let view = |id| EtcdView {
            name: format!("cp-{id}"),
            service: Ok(Some(Service {
                id: "etcd".to_owned(),
                state: "Running".to_owned(),
                health: Health::Good,
                message: String::new(),
            })),
            members: Ok(members(count)),
            status: Ok(MemberStatus { leader: 1, member_id: id, ..MemberStatus::default() }),
            alarms: Ok(vec![]),
        };
        (1..=count).map(view).collect()
    }

    #[test]
    fn one_or_three_may_lose_one_and_two_may_not() {
        for count in [1, 3, 4, 5] {
            assert_eq!(objections(&well(count)), [""; 0], "{count}");
        }
        assert_eq!(
            objections(&well(2)),
            ["etcd has two members and loses its quorum without one of them"]
        );
    }

    #[test]
    fn the_others_must_be_healthy_and_a_majority() {
        for count in [3, 4, 5] {
            assert_eq!(objections_to_loss(&well(count)[1..]), [""; 0], "{count}");
        }
        let minority = "only 1 of 2 voting etcd members would stay healthy";
        assert_eq!(objections_to_loss(&well(2)[1..]), [minority]);
        let mut views = well(3);
        views[2].service = Ok(None);
        let expected =
            ["cp-3: etcd is not running", "only 1 of 3 voting etcd members would stay healthy"];
        assert_eq!(objections_to_loss(&views[1..]), expected);
        let none = "no other control plane reports the members of etcd";
        assert_eq!(objections_to_loss(&[]), [none]);
    }

    #[test]
    fn unreachable_and_unhealthy_members_are_named() {
        let mut views = well(3);
        let away = "10.0.0.2:50000 did not answer in time".to_owned();
        let away = EtcdUnknown::Unreachable(away);
        views[1] = EtcdView {
            name: "cp-2".to_owned(),
            service: Err(away.clone()),
            members: Err(away.clone()),
            status: Err(away.clone()),
            alarms: Err(away),
        };
        assert_eq!(objections(&views), ["cp-2: 10.0.0.2:50000 did not answer in time"]);
        let mut views = well(3);
        if let Ok(Some(service)) = &mut views[2].service {
            service.health = Health::Bad;
            service.message = "context deadline exceeded".to_owned();
        }
        assert_eq!(
            objections(&views),
            ["cp-3: etcd is Running, not healthy: context deadline exceeded"]
        );
        views[2].service = Ok(None);
        assert_eq!(objections(&views), ["cp-3: etcd is not running"]);
        assert_eq!(objections(&[]), ["no control plane reports the members of etcd"]);
    }

    #[test]
    fn learners_unknown_and_unstarted_members_are_named() {
        let mut views = well(3);
        for view in &mut views {
            let members = view.members.as_mut().unwrap();
            members[1].is_learner = true;
            members[2].client_urls.clear();
            members[2].hostname.clear();
            members.push(Member { id: 9, ..members[0].clone() });
            members[3].hostname = "gone".to_owned();
        }
        assert_eq!(
            objections(&views),
            [
                "the member cp-2 is still a learner",
                "the member 0000000000000003 has not started",
                "the member gone does not belong to any control plane",
            ]
        );
    }

    #[test]
    fn members_must_agree_and_have_no_alarms() {
        let mut views = well(3);
        views[0].alarms = Ok(vec![(1, Alarm::NoSpace), (2, Alarm::Corrupt)]);
        views[1].status.as_mut().unwrap().leader = 2;
        views[2].status.as_mut().unwrap().leader = 0;
        views[2].members.as_mut().unwrap().pop();
        assert_eq!(
            objections(&views),
            [
                "cp-1: etcd has an active alarm: the database is full (NOSPACE)",
                "cp-3: its etcd member has no leader",
                "cp-3: its etcd member list differs from that of the others",
                "the etcd members report different leaders",
            ]
        );
    }
}
