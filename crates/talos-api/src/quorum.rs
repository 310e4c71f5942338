//! Whether a control plane may go away for a while without etcd losing its quorum.
//!
//! The services of Talos 1.13 and later do not ask before they upgrade a node, so somebody must.

use std::collections::BTreeSet;

use tokio::task::JoinSet;
use tracing::Instrument as _;

use crate::client::{Alarm, Client, Health, Member, MemberStatus, Service};
use crate::error::TalosError;
use crate::etcd_state::ETCD;

/// etcd on one control plane, as it was seen; what could not be seen says why.
#[derive(Clone, Debug, PartialEq)]
pub struct EtcdView {
    /// The control plane.
    pub name: String,
    pub service: Result<Option<Service>, String>,
    /// All members, as its own sees them.
    pub members: Result<Vec<Member>, String>,
    pub status: Result<MemberStatus, String>,
    pub alarms: Result<Vec<(u64, Alarm)>, String>,
}

/// Looks at etcd on all control planes at the same time. The views come in the order of the nodes.
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
    let why = |error: TalosError| error.reason();
    let service = match client.services().await {
        Ok(all) => Ok(all.into_iter().find(|service| service.id == ETCD)),
        // Nothing else will be answered: one reason is enough, and one wait.
        Err(error) => {
            let why = error.reason();
            return EtcdView {
                name,
                service: Err(why.clone()),
                members: Err(why.clone()),
                status: Err(why.clone()),
                alarms: Err(why),
            };
        }
    };
    // An etcd that is down never answers: its service says why.
    if let Ok(found) = &service
        && !found.as_ref().is_some_and(Service::is_running)
    {
        let down = found.as_ref().map_or("etcd does not run".to_owned(), Service::describe);
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

/// Everything that speaks against taking one control plane away; nothing if it is safe.
///
/// `views` are all control planes of the cluster. A single one may go: there is no quorum to keep,
/// only an outage that its owner knows about. Of two, neither may.
pub fn objections(views: &[EtcdView]) -> Vec<String> {
    let mut objections: Vec<String> = views.iter().flat_map(of_one).collect();
    let Some(members) = views.iter().find_map(|view| view.members.as_ref().ok()) else {
        objections.push("no control plane says who the members of etcd are".to_owned());
        return objections;
    };
    objections.extend(of_members(members, views));
    objections
}

/// What is wrong with one member, by what its node says.
fn of_one(view: &EtcdView) -> Vec<String> {
    let name = &view.name;
    let service = match &view.service {
        Err(why) => return vec![format!("{name}: {why}")],
        Ok(None) => return vec![format!("{name}: etcd does not run")],
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
                found.push(format!("{name}: its etcd knows no leader"));
            }
            if status.is_learner {
                found.push(format!("{name}: its etcd is still a learner"));
            }
            found.extend(status.errors.iter().map(|error| format!("{name}: {error}")));
        }
    }
    match &view.alarms {
        Err(why) => found.push(format!("{name}: {why}")),
        // Every member tells the alarms of all: each is said once, by its own node.
        Ok(alarms) => {
            let own = view.status.as_ref().map_or(0, |status| status.member_id);
            let own = alarms.iter().filter(|(member, _)| *member == own);
            found.extend(own.map(|(_, alarm)| format!("{name}: etcd's alarm is on: {alarm}")));
        }
    }
    found
}

/// What is wrong with the members as a whole.
fn of_members(members: &[Member], views: &[EtcdView]) -> Vec<String> {
    let ids = |members: &[Member]| members.iter().map(|one| one.id).collect::<BTreeSet<u64>>();
    let mut found = vec![];
    for view in views {
        match &view.members {
            Ok(theirs) if ids(theirs) != ids(members) => {
                found.push(format!("{}: it knows other members than the others", view.name));
            }
            // Its service or its status says more, if there is anything to say.
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
            found.push(format!("the member {} is on none of the control planes", title(member)));
        }
    }
    let leaders: BTreeSet<u64> =
        views.iter().filter_map(|view| Some(view.status.as_ref().ok()?.leader)).collect();
    if leaders.len() > 1 {
        found.push("the members do not agree on their leader".to_owned());
    }
    match members.len() {
        0 => found.push("etcd has no members".to_owned()),
        2 => found.push("etcd has two members: without either of them it stands still".to_owned()),
        _ => {}
    }
    found
}

/// By its name, or by its id before it has one.
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
            ["etcd has two members: without either of them it stands still"]
        );
    }

    #[test]
    fn whoever_is_away_or_ill_is_named() {
        let mut views = well(3);
        let away = "10.0.0.2:50000 did not answer in time".to_owned();
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
        assert_eq!(objections(&views), ["cp-3: etcd does not run"]);
        assert_eq!(objections(&[]), ["no control plane says who the members of etcd are"]);
    }

    #[test]
    fn learners_strangers_and_those_who_never_started_are_named() {
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
                "the member gone is on none of the control planes",
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
                "cp-1: etcd's alarm is on: its space is used up",
                "cp-3: its etcd knows no leader",
                "cp-3: it knows other members than the others",
                "the members do not agree on their leader",
            ]
        );
    }
}
