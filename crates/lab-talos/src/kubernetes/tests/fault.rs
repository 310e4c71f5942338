use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use serde_json::Value;
use talmox_clock::Clock;
use talmox_lab_environment::fault::{Action, Fault, PathPattern, When};
use talmox_lab_kube::object::condition;

use super::client::{get, send};
use super::control_planes;
use crate::etcd;
use crate::test_bench::Bench;

const FIRST: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 11));
const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 12));
const FULL: &str = "etcdserver: mvcc: database space exceeded";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Fault that acts once, on the first request to a path. `node` limits the fault to one node.
fn fault(path: &str, node: Option<&str>, action: Action) -> Fault {
    let kube = Some(PathPattern::parse(path).unwrap());
    Fault::new(When { kube, node: node.map(str::to_owned), ..When::default() }, action)
}

fn add(bench: &Bench, fault: Fault) {
    bench.simulation.environment.faults.add(fault);
}

async fn create(bench: &Bench, name: &str) -> Option<(u16, String)> {
    let object = format!(r#"{{"metadata": {{"name": "{name}", "namespace": "default"}}}}"#);
    send(bench, FIRST, "POST", MAPS, &object).await
}

async fn is_there(bench: &Bench, name: &str) -> bool {
    get(bench, FIRST, &format!("{MAPS}/{name}")).await.unwrap().0 == 200
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_rejected_by_node_path_and_count() {
    let bench = control_planes(2, |_| {}).await;
    let reject = Action::Reject { status: 503, message: "not now".to_owned() };
    add(&bench, Fault { nth: 2, ..fault("/api/v1/nodes/**", Some("node-11"), reject) });
    assert_eq!(get(&bench, SECOND, "/api/v1/nodes").await.unwrap().0, 200);
    assert_eq!(get(&bench, FIRST, "/api/v1/pods").await.unwrap().0, 200);
    assert_eq!(get(&bench, FIRST, "/api/v1/nodes").await.unwrap().0, 200);
    let (status, body) = get(&bench, FIRST, "/api/v1/nodes/node-11").await.unwrap();
    assert_eq!(status, 503);
    assert!(body.contains("not now") && body.contains("ServiceUnavailable"), "{body}");
    assert_eq!(get(&bench, FIRST, "/api/v1/nodes").await.unwrap().0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_break_before_or_after_the_change() {
    let bench = control_planes(1, |_| {}).await;
    let mut posted = fault(MAPS, None, Action::CutBefore);
    posted.when.method = Some("POST".to_owned());
    add(&bench, posted);
    assert_eq!(create(&bench, "before").await, None);
    assert!(!is_there(&bench, "before").await);
    add(&bench, fault(MAPS, Some("10.0.0.11"), Action::CutAfter));
    assert_eq!(create(&bench, "after").await, None);
    assert!(is_there(&bench, "after").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_delayed_or_missing() {
    let bench = control_planes(1, |_| {}).await;
    add(&bench, fault("/version", None, Action::Delay(Duration::from_mins(1))));
    let before = bench.simulation.now();
    assert_eq!(get(&bench, FIRST, "/version").await.unwrap().0, 200);
    assert!(bench.simulation.now().saturating_sub(before) >= Duration::from_mins(1));
    add(&bench, fault("/version", Some("11"), Action::Hang));
    let timeout = Duration::from_millis(500);
    let never = Clock::real().timeout(timeout, get(&bench, FIRST, "/version")).await;
    assert!(never.is_err());
    assert_eq!(get(&bench, FIRST, "/version").await.unwrap().0, 200);
}

/// Waits until the kubelet logs that it cannot register.
async fn until_registration_fails(bench: &Bench, vmid: u32) {
    bench
        .until("the kubelet to log the reason", |talos| {
            let mut log = talos.nodes.get(&vmid)?.services.get("kubelet")?.log.iter();
            log.any(|line| line.contains(FULL)).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_fail_while_a_disk_is_full() {
    // At this speed, all components stop writing before the node can become not ready.
    let bench = Bench::at_speed(20.0);
    let boot = bench.start_control_plane(11);
    etcd::bootstrap(&bench.simulation, 11, boot, None).unwrap();
    bench.until_healthy(11, "etcd").await;
    let store = bench.store_of(11);
    let is_ready = |node: &Value| condition(node, "Ready").is_some_and(|it| it["status"] == "True");
    bench.until_object(&store, ("nodes", "", "node-11"), is_ready).await;

    bench.simulation.change(|talos| talos.raise_alarm(talos.nodes[&11].etcd.unwrap()));
    let rejected = async {
        while !create(&bench, "late").await.is_some_and(|(_, body)| body.contains(FULL)) {}
    };
    Clock::real().timeout(Duration::from_secs(30), rejected).await.unwrap();
    until_registration_fails(&bench, 11).await;
    bench.start_worker(21);
    until_registration_fails(&bench, 21).await;
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-11";
    let renewed = get(&bench, FIRST, lease).await.unwrap();
    // If writes were possible, the node would become not ready in this time.
    bench.simulation.clock().sleep(Duration::from_mins(1)).await;
    assert_eq!(get(&bench, FIRST, lease).await.unwrap(), renewed);
    assert!(is_ready(&store.get("nodes", "", "node-11").unwrap()));
    assert!(store.get("nodes", "", "node-21").is_none());

    etcd::disarm(&bench.simulation, 11).unwrap();
    bench.until_object(&store, ("nodes", "", "node-21"), is_ready).await;
    bench.until_object(&store, ("nodes", "", "node-11"), is_ready).await;
}
