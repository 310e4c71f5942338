use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_talos_api::Client;
use talmox_talos_api::client::{Health as ServiceHealth, Member, Service};
use talmox_talos_api::health::{
    Check, ClusterHealth, HealthSettings, KubeNode, KubePod, KubeView, NodeView, Replicas, Seen,
    State, Subject, Unavailable, look,
};

use crate::fixture::{Cluster, HOST, Server, host};
use crate::node::{Node, services};

fn service(id: &str) -> Service {
    Service {
        id: id.to_owned(),
        state: "Running".to_owned(),
        health: ServiceHealth::Good,
        message: String::new(),
    }
}

fn member(id: u64, hostname: &str, address: &str) -> Member {
    Member {
        id,
        hostname: hostname.to_owned(),
        peer_urls: vec![format!("https://{address}:2380")],
        ..Member::default()
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Two control planes and a worker, all healthy.
fn healthy_nodes() -> Vec<NodeView> {
    let members = vec![member(1, "cp-1", "10.0.0.1"), member(2, "cp-2", "10.0.0.2")];
    let node = |name: &str, at: &str, is_control_plane: bool| NodeView {
        name: name.to_owned(),
        is_control_plane,
        addresses: vec![address(at)],
        version: Seen::Is("v1.13.6".to_owned()),
        services: Seen::Is(vec![service("etcd"), service("kubelet")]),
        etcd_members: Seen::Is(if is_control_plane { members.clone() } else { vec![] }),
        memory: Seen::Is(2 << 30),
        ephemeral: Seen::Is(30 << 30),
        diagnostics: Seen::Is(vec![]),
        stage: Seen::Is("running".to_owned()),
    };
    vec![
        node("cp-1", "10.0.0.1", true),
        node("cp-2", "10.0.0.2", true),
        node("w-1", "10.0.0.3", false),
    ]
}

fn healthy_kube_view() -> KubeView {
    let node = |name: &str, at: &str| KubeNode {
        name: name.to_owned(),
        internal_addresses: vec![address(at)],
        is_ready: true,
        is_schedulable: true,
    };
    let pods = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];
    let pods = ["10.0.0.1", "10.0.0.2"].map(|at| {
        pods.map(|component| KubePod {
            component: component.to_owned(),
            host: Some(address(at)),
            is_ready: true,
        })
    });
    KubeView {
        nodes: vec![node("cp-1", "10.0.0.1"), node("cp-2", "10.0.0.2"), node("w-1", "10.0.0.3")],
        control_plane_pods: pods.concat(),
        kube_proxy: None,
        core_dns: Some(Replicas { desired: 2, ready: 2 }),
        has_network: false,
    }
}

fn checked_health(nodes: &[NodeView], kube: Option<&KubeView>, has_cni: bool) -> ClusterHealth {
    let mut health = ClusterHealth::new(Clock::real(), HealthSettings { has_cni });
    assert_eq!(health.waits_for().unwrap().0, Check::EtcdHealthy);
    health.update(nodes, kube);
    health
}

fn state(health: &ClusterHealth, check: Check) -> &State {
    &health.reports().iter().find(|report| report.check == check).unwrap().state
}

fn why(health: &ClusterHealth, check: Check) -> &str {
    match state(health, check) {
        State::Waiting(why) => why,
        other => panic!("{check:?}: {other:?}"),
    }
}

#[test]
fn a_healthy_cluster_passes_all_checks() {
    let health = checked_health(&healthy_nodes(), Some(&healthy_kube_view()), true);
    assert!(health.is_healthy(), "{:?}", health.waits_for());
    assert_eq!(health.reports().len(), 16);
    assert_eq!(
        state(&health, Check::KubeProxy),
        &State::Skipped("kube-proxy is not installed".to_owned())
    );
}

#[test]
fn each_check_names_the_node_and_the_reason() {
    let mut nodes = healthy_nodes();
    let preparing = Service {
        state: "Preparing".to_owned(),
        health: ServiceHealth::Unknown,
        message: "waiting".to_owned(),
        ..service("etcd")
    };
    nodes[1].services = Seen::Is(vec![preparing]);
    nodes[1].etcd_members = Seen::Is(vec![member(1, "cp-1", "10.0.0.9")]);
    nodes[0].memory = Seen::Is(1 << 30);
    nodes[2].ephemeral = Seen::Is(1 << 30);
    nodes[2].diagnostics = Seen::Is(vec!["address overlap".to_owned()]);
    nodes[2].stage = Seen::Is("booting".to_owned());
    nodes[2].version = Seen::Unknown("10.0.0.3:50000 did not answer in time".to_owned());
    let health = checked_health(&nodes, None, true);
    assert_eq!(why(&health, Check::EtcdHealthy), "cp-2: etcd is Preparing: waiting");
    assert_eq!(
        why(&health, Check::EtcdConsistent),
        "cp-2: its member list is cp-1, but cp-1 reports cp-1, cp-2"
    );
    assert_eq!(
        why(&health, Check::EtcdOnControlPlanes),
        "cp-2: etcd has members that are not control planes: https://10.0.0.9:2380"
    );
    assert_eq!(why(&health, Check::ApiReady), "w-1: 10.0.0.3:50000 did not answer in time");
    assert_eq!(why(&health, Check::Memory), "cp-1: it has 1024 MiB of memory, but needs 1698");
    assert_eq!(why(&health, Check::Disks), "w-1: EPHEMERAL has 1024 MiB, but needs 3932");
    assert_eq!(why(&health, Check::NoDiagnostics), "w-1: address overlap");
    assert_eq!(why(&health, Check::KubeletHealthy), "cp-2: the service kubelet does not exist yet");
    assert_eq!(why(&health, Check::Booted), "w-1: its stage is booting");
    assert_eq!(why(&health, Check::NodesReport), "the Kubernetes API has not answered yet");
}

#[test]
fn checks_that_cannot_pass_without_a_network_are_skipped() {
    let mut kube = healthy_kube_view();
    kube.nodes[2].is_ready = false;
    kube.core_dns = Some(Replicas { desired: 2, ready: 0 });
    let health = checked_health(&healthy_nodes(), Some(&kube), false);
    assert!(health.is_healthy());
    assert!(
        matches!(state(&health, Check::NodesReady), State::Skipped(why) if why.contains("network"))
    );
    let health = checked_health(&healthy_nodes(), Some(&kube), true);
    assert_eq!(why(&health, Check::NodesReady), "w-1 is not ready");
    assert_eq!(why(&health, Check::CoreDns), "0 of 2 pods are ready");
}

#[test]
fn nodes_must_become_ready_once_a_cni_is_installed() {
    let mut kube = KubeView { has_network: true, ..healthy_kube_view() };
    kube.nodes[2].is_ready = false;
    let health = checked_health(&healthy_nodes(), Some(&kube), false);
    assert_eq!(why(&health, Check::NodesReady), "w-1 is not ready");
    kube.nodes[2].is_ready = true;
    assert!(checked_health(&healthy_nodes(), Some(&kube), false).is_healthy());
}

#[test]
fn unchecked_nodes_do_not_count() {
    let mut kube = healthy_kube_view();
    kube.nodes.push(KubeNode {
        name: "laptop".to_owned(),
        internal_addresses: vec![address("192.168.1.7")],
        is_ready: false,
        is_schedulable: false,
    });
    kube.kube_proxy = Some(Replicas { desired: 4, ready: 3 });
    let health = checked_health(&healthy_nodes(), Some(&kube), true);
    assert!(health.is_healthy(), "{:?}", health.waits_for());
    kube.kube_proxy = Some(Replicas { desired: 4, ready: 2 });
    let health = checked_health(&healthy_nodes(), Some(&kube), true);
    assert_eq!(why(&health, Check::KubeProxy), "2 of 3 pods are ready");
}

#[test]
fn an_installed_kube_proxy_must_be_ready() {
    let mut kube = healthy_kube_view();
    kube.kube_proxy = Some(Replicas { desired: 3, ready: 2 });
    let health = checked_health(&healthy_nodes(), Some(&kube), true);
    assert_eq!(why(&health, Check::KubeProxy), "2 of 3 pods are ready");
    assert_eq!(health.waits_for(), Some((Check::KubeProxy, "2 of 3 pods are ready")));
    kube.kube_proxy = Some(Replicas { desired: 3, ready: 3 });
    let health = checked_health(&healthy_nodes(), Some(&kube), true);
    assert_eq!(state(&health, Check::KubeProxy), &State::Passed);
    assert!(health.is_healthy());
    // A DaemonSet without matching nodes needs no pods, so the check is skipped.
    kube.kube_proxy = Some(Replicas { desired: 0, ready: 0 });
    let health = checked_health(&healthy_nodes(), Some(&kube), true);
    assert!(matches!(state(&health, Check::KubeProxy), State::Skipped(_)));
}

#[test]
fn every_check_passes_and_fails() {
    let passing = checked_health(&healthy_nodes(), Some(&proxied()), true);
    for report in passing.reports() {
        assert_eq!(report.state, State::Passed, "{}", report.check.name());
    }
    // Without data, each check waits and has a reason. No check passes by mistake.
    let mut nodes = healthy_nodes();
    for node in &mut nodes {
        let unseen = || "no answer".to_owned();
        node.version = Seen::Unknown(unseen());
        node.services = Seen::Unknown(unseen());
        node.etcd_members = Seen::Unknown(unseen());
        node.memory = Seen::Unknown(unseen());
        node.ephemeral = Seen::Unknown(unseen());
        node.diagnostics = Seen::Unknown(unseen());
        node.stage = Seen::Unknown(unseen());
    }
    let failing = checked_health(&nodes, None, true);
    for report in failing.reports() {
        let is_waiting = matches!(&report.state, State::Waiting(why) if !why.is_empty());
        assert!(is_waiting, "{}: {:?}", report.check.name(), report.state);
    }
}

/// Kubernetes state of a healthy cluster with kube-proxy.
fn proxied() -> KubeView {
    KubeView { kube_proxy: Some(Replicas { desired: 3, ready: 3 }), ..healthy_kube_view() }
}

#[test]
fn nodes_without_data_are_named_and_the_others_are_checked() {
    let mut nodes = healthy_nodes();
    nodes[0].diagnostics = Seen::Unavailable(Unavailable::TooOld);
    nodes[1].diagnostics = Seen::Unavailable(Unavailable::NotAllowed);
    nodes[1].ephemeral = Seen::Unavailable(Unavailable::NotAllowed);
    let report = |nodes: &[NodeView], check: Check| {
        let health = checked_health(nodes, Some(&proxied()), true);
        let report = health.reports().iter().find(|report| report.check == check).unwrap();
        (report.state.clone(), report.unavailable.clone())
    };
    let unavailable = "cp-1: this version of Talos does not report it; cp-2: the client certificate lacks the role to read it";
    let complaints = report(&nodes, Check::NoDiagnostics);
    assert_eq!(complaints, (State::Passed, Some(unavailable.to_owned())));
    // The worker reports the value, so it is checked.
    nodes[2].ephemeral = Seen::Is(1 << 30);
    let (state, unavailable) = report(&nodes, Check::Disks);
    assert!(
        matches!(&state, State::Waiting(why) if why.starts_with("w-1: EPHEMERAL")),
        "{state:?}"
    );
    assert_eq!(
        unavailable.as_deref(),
        Some("cp-2: the client certificate lacks the role to read it")
    );
    assert_eq!(report(&nodes, Check::Memory), (State::Passed, None));
    for node in &mut nodes {
        node.ephemeral = Seen::Unavailable(Unavailable::TooOld);
    }
    let all = "cp-1, cp-2, w-1: this version of Talos does not report it".to_owned();
    assert_eq!(report(&nodes, Check::Disks), (State::Skipped(all.clone()), Some(all)));
}

#[test]
fn every_node_and_component_must_be_in_kubernetes() {
    let mut kube = healthy_kube_view();
    kube.nodes[1].is_schedulable = false;
    kube.nodes.pop();
    kube.control_plane_pods[5].is_ready = false;
    kube.control_plane_pods.remove(0);
    let health = checked_health(&healthy_nodes(), Some(&kube), true);
    assert_eq!(why(&health, Check::NodesReport), "w-1 is not registered in Kubernetes");
    assert_eq!(why(&health, Check::StaticPods), "cp-1: kube-apiserver does not run");
    assert_eq!(
        why(&health, Check::ControlPlaneReady),
        "cp-1: kube-apiserver is not ready; cp-2: kube-scheduler is not ready"
    );
    assert_eq!(why(&health, Check::Schedulable), "cp-2 is not schedulable");
}

#[tokio::test]
async fn a_state_keeps_the_time_of_its_start() {
    let clock = Clock::scaled(1000.0);
    let mut health = ClusterHealth::new(clock, HealthSettings { has_cni: true });
    let began = health.reports()[0].since;
    clock.sleep(Duration::from_secs(5)).await;
    let mut nodes = healthy_nodes();
    nodes[0].services = Seen::Unknown("no answer".to_owned());
    health.update(&nodes, None);
    assert_eq!(health.reports()[0].since, began);
    clock.sleep(Duration::from_secs(5)).await;
    health.update(&healthy_nodes(), None);
    let passed = health.reports()[0].since;
    assert!(passed.since(began) >= Duration::from_secs(10));
    health.update(&healthy_nodes(), None);
    assert_eq!(health.reports()[0].since, passed);
}

#[tokio::test]
async fn nodes_are_observed_over_the_network() {
    let cluster = Cluster::new();
    let server =
        Server::start(cluster.tls_config(HOST), services(&Arc::new(Node::default()))).await;
    let credentials = cluster.credentials();
    let subject = |name: &str, client: Client| Subject {
        name: name.to_owned(),
        is_control_plane: true,
        addresses: vec![address(HOST)],
        client,
    };
    let here = Client::new(host(), &credentials, &server.settings()).unwrap();
    let mut elsewhere = server.settings();
    elsewhere.reach = talmox_talos_api::Reach::new([(HOST, "127.0.0.1:1")]);
    let gone = Client::new(host(), &credentials, &elsewhere).unwrap();
    let views = look(&[subject("gone", gone), subject("here", here)]).await;
    assert_eq!(views[0].name, "gone");
    assert!(matches!(&views[0].stage, Seen::Unknown(why) if why.contains("cannot connect")));
    assert_eq!(views[1].version, Seen::Is("v1.13.6".to_owned()));
    assert_eq!(views[1].memory, Seen::Is(4 << 30));
    assert_eq!(views[1].ephemeral, Seen::Is(32 << 30));
    assert_eq!(views[1].diagnostics, Seen::Unavailable(Unavailable::TooOld));
    assert_eq!(views[1].stage, Seen::Is("booting".to_owned()));
}
