use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_talos_config::generate::Role;

use super::client::get;
use super::{apply, control_planes};
use crate::config::LinkFacts;
use crate::etcd;
use crate::talos_state::TalosState;
use crate::test_bench::{Bench, VIP};

const FIRST: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 11));

/// Repeats a request until the answer has this status and contains this text.
async fn until_answer(bench: &Bench, address: IpAddr, path: &str, status: u16, body: &str) {
    let mut last = None;
    for _ in 0..1000 {
        last = get(bench, address, path).await;
        if last.as_ref().is_some_and(|(code, text)| *code == status && text.contains(body)) {
            return;
        }
        Clock::real().sleep(Duration::from_millis(20)).await;
    }
    panic!("{path} of {address}: {last:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_control_plane_presents_a_certificate_of_the_cluster_ca() {
    let bench = control_planes(2, |_| {}).await;
    for address in [FIRST, IpAddr::V4(Ipv4Addr::new(10, 0, 0, 12))] {
        until_answer(&bench, address, "/version", 200, "v1.34.1").await;
        until_answer(&bench, address, "/readyz", 200, "ok").await;
        until_answer(&bench, address, "/api/v1/nodes", 200, "node-12").await;
    }
    assert_eq!(get(&bench, VIP, "/version").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_does_not_restart_when_its_addresses_get_listeners() {
    let elsewhere = IpAddr::V4(Ipv4Addr::new(10, 7, 0, 100));
    let bench = Bench::new();
    let config = bench.config(&bench.bundle, Role::ControlPlane, |facts| {
        facts.links.push(LinkFacts { vip: Some(elsewhere), ..LinkFacts::default() });
    });
    let boot = bench.start(11, config);
    let simulation = Arc::clone(&bench.simulation);
    let serves = |talos: &TalosState| {
        let serves = talos.etcds.values().next().is_some_and(|one| !one.api_servers.is_empty());
        serves.then_some(())
    };
    let watching = tokio::spawn(async move {
        simulation.until(serves).await;
        simulation.until(|talos| serves(talos).is_none().then_some(())).await;
    });
    etcd::bootstrap(&bench.simulation, 11, boot, None).unwrap();
    // Here both networks get their loopback addresses for the first time.
    until_answer(&bench, FIRST, "/version", 200, "v1.34.1").await;
    until_answer(&bench, elsewhere, "/version", 200, "v1.34.1").await;
    until_answer(&bench, FIRST, "/api/v1/nodes", 200, "node-11").await;
    assert!(!watching.is_finished(), "the API server restarted");
    watching.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_fail_without_quorum() {
    let bench = control_planes(3, |_| {}).await;
    bench.kill(12);
    bench.kill(13);
    until_answer(&bench, FIRST, "/readyz", 500, "[-]etcd failed").await;
    until_answer(&bench, FIRST, "/api/v1/nodes", 500, "etcdserver: request timed out").await;
    bench.start_control_plane(12);
    until_answer(&bench, FIRST, "/readyz", 200, "ok").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_image_changes_the_version() {
    let bench = control_planes(1, |_| {}).await;
    until_answer(&bench, FIRST, "/version", 200, "v1.34.1").await;
    let newer = bench.config(&bench.bundle, Role::ControlPlane, |facts| {
        facts.api_server_image = "registry.k8s.io/kube-apiserver:v1.34.5".to_owned();
    });
    apply(&bench, 11, newer);
    until_answer(&bench, FIRST, "/version", 200, "v1.34.5").await;
}
