//! Observing Kubernetes: registered nodes, health checks and add-ons.

use std::collections::BTreeMap;
use std::time::Duration;

use talmox_clock::Deadline;
use talmox_plan::desired::Desired;
use talmox_plan::observed::{
    AddonRead, Addons, CheckSeen, CheckState, CordonedBy, EtcdSeen, KubernetesSeen, Registered,
    TalosSeen,
};
use talmox_talos_api::health::{
    Check, ClusterHealth, HealthSettings, Report, State, Subject, look,
};
use talmox_talos_api::{Client, node_address};
use tokio::time::timeout;

use super::sources::Sources;
use super::{addon, unknown_node};
use crate::kube::NodeFacts;

/// Timeout of the first answer. It is in real time, because it limits a network connection.
const FIRST_ANSWER: Duration = Duration::from_secs(5);

pub(super) async fn observe(
    desired: &Desired,
    nodes: &BTreeMap<String, TalosSeen>,
    sources: &Sources<'_>,
    mut read: BTreeMap<String, AddonRead>,
    deadline: Deadline,
) -> (KubernetesSeen, Addons) {
    let (seen, addons) = look_at_all(desired, nodes, sources, &read, deadline).await;
    read.extend(addons.read);
    (seen, Addons { read, ..addons })
}

async fn look_at_all(
    desired: &Desired,
    nodes: &BTreeMap<String, TalosSeen>,
    sources: &Sources<'_>,
    read: &BTreeMap<String, AddonRead>,
    deadline: Deadline,
) -> (KubernetesSeen, Addons) {
    let is_member = |seen: &TalosSeen| match seen {
        TalosSeen::OwnNode(found) => matches!(found.etcd, EtcdSeen::Member { .. }),
        _ => false,
    };
    if !nodes.values().any(is_member) {
        return (KubernetesSeen::NotAsked, Addons::default());
    }
    let known =
        match timeout(FIRST_ANSWER.min(deadline.left()), Box::pin(sources.kube.nodes())).await {
            Ok(Ok(known)) => known,
            Ok(Err(error)) => return (KubernetesSeen::Silent(error.reason()), Addons::default()),
            Err(_) => {
                let reason = "no answer came in time".to_owned();
                return (KubernetesSeen::Silent(reason), Addons::default());
            }
        };
    let has_cni = desired.has_cni || addon::bring_network(read);
    let problem = async { problem(desired, nodes, sources, has_cni).await.unwrap_or_default() };
    let addons = addon::addons(desired, read, sources.kube);
    // A connection to an address without a machine ends only at its timeout. It must not use up the time of the health checks.
    let probes = unknown_node::observe(desired, &known, &sources.talos.settings.reach);
    let unknown = async { timeout(deadline.left() / 2, probes).await.unwrap_or_default() };
    let both = Box::pin(async {
        let (problem, addons, unknown) = tokio::join!(problem, addons, unknown);
        (Registered { unknown, ..problem }, addons)
    });
    let Ok((problem, addons)) = timeout(deadline.left(), both).await else {
        let problem = Some("the health checks got no answer in time".to_owned());
        let registered = Registered { problem, ..registered(&known) };
        return (KubernetesSeen::Answers(registered), Addons::default());
    };
    let Registered { nodes, cordoned, unready, addresses, .. } = registered(&known);
    let registered = Registered { nodes, cordoned, unready, addresses, ..problem };
    (KubernetesSeen::Answers(registered), addons.unwrap_or_default())
}

/// Result of the health checks at the end of the creation of a cluster. None if a node has not joined, because the plan waits
/// for that node anyway.
async fn problem(
    desired: &Desired,
    nodes: &BTreeMap<String, TalosSeen>,
    sources: &Sources<'_>,
    has_cni: bool,
) -> Option<Registered> {
    let mut subjects = vec![];
    for node in desired.nodes.iter().filter(|node| node.is_talos) {
        let Some(TalosSeen::OwnNode(found)) = nodes.get(&node.name) else { return None };
        if !found.has_joined(node.is_control_plane) {
            return None;
        }
        let at = found.address?;
        let access = sources.talos;
        let address = node_address(at.to_string());
        subjects.push(Subject {
            name: node.name.clone(),
            is_control_plane: node.is_control_plane,
            addresses: vec![at],
            client: Client::new(address, &access.credentials, &access.settings).ok()?,
        });
    }
    let mut health = ClusterHealth::new(sources.talos.settings.clock, HealthSettings { has_cni });
    let (views, kube) =
        Box::pin(async { tokio::join!(look(&subjects), sources.kube.view()) }).await;
    health.update(&views, kube.as_ref().ok());
    let checks = health.reports().iter().map(check_seen).collect();
    let is_skipped = |report: &Report| matches!(report.state, State::Skipped(_));
    let lacks_pod_network = health
        .reports()
        .iter()
        .any(|report| report.check == Check::NodesReady && is_skipped(report));
    let (members, others): (Vec<&Report>, Vec<_>) =
        health.reports().iter().partition(|report| report.check == Check::EtcdOnControlPlanes);
    Some(Registered {
        problem: others.into_iter().find_map(waiting),
        strange_members: members.into_iter().find_map(waiting),
        checks,
        lacks_pod_network,
        ..Registered::default()
    })
}

/// The nodes that Kubernetes lists, and which of them are cordoned or not ready.
fn registered(known: &[NodeFacts]) -> Registered {
    let cordoned = known.iter().filter(|node| !node.is_schedulable).map(|node| {
        let by = if node.is_marked { CordonedBy::Talmox } else { CordonedBy::Other };
        (node.name.clone(), by)
    });
    let unready = known.iter().filter(|node| !node.is_ready);
    let addresses = known.iter().map(|node| (node.name.clone(), node.internal_addresses.clone()));
    Registered {
        nodes: known.iter().map(|node| node.name.clone()).collect(),
        cordoned: cordoned.collect(),
        unready: unready.map(|node| node.name.clone()).collect(),
        addresses: addresses.collect(),
        ..Registered::default()
    }
}

fn check_seen(report: &Report) -> CheckSeen {
    let (state, reason) = match &report.state {
        State::Passed => (CheckState::Passed, None),
        State::Waiting(why) => (CheckState::Waiting, Some(why.clone())),
        State::Skipped(why) => (CheckState::Skipped, Some(why.clone())),
    };
    CheckSeen { name: report.check.name(), state, reason }
}

fn waiting(report: &Report) -> Option<String> {
    // A cordoned node is not a problem: it was cordoned on purpose.
    if report.check == Check::Schedulable {
        return None;
    }
    match &report.state {
        State::Waiting(why) => Some(why.split("; ").next().unwrap_or_default().to_owned()),
        State::Passed | State::Skipped(_) => None,
    }
}
