use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use talmox_clock::Clock;

use super::client::{get, send};
use super::control_planes;
use crate::pve::Fault;
use crate::talos::bench::Bench;

const FIRST: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 11));
const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 12));
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn script(bench: &Bench, entry: &str) {
    let faults = Fault::parse("faults.yaml", &format!("faults:\n  - {entry}\n")).unwrap();
    for fault in faults {
        bench.realm.site.faults.add(fault);
    }
}

async fn create(bench: &Bench, name: &str) -> Option<(u16, String)> {
    let object = format!(r#"{{"metadata": {{"name": "{name}", "namespace": "default"}}}}"#);
    send(bench, FIRST, "POST", MAPS, &object).await
}

async fn is_there(bench: &Bench, name: &str) -> bool {
    get(bench, FIRST, &format!("{MAPS}/{name}")).await.unwrap().0 == 200
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_refused_by_node_path_and_count() {
    let bench = control_planes(2, |_| {}).await;
    script(
        &bench,
        "{kube: /api/v1/nodes/**, node: node-11, nth: 2, refuse: {status: 503, message: not now}}",
    );
    assert_eq!(get(&bench, SECOND, "/api/v1/nodes").await.unwrap().0, 200);
    assert_eq!(get(&bench, FIRST, "/api/v1/pods").await.unwrap().0, 200);
    assert_eq!(get(&bench, FIRST, "/api/v1/nodes").await.unwrap().0, 200);
    let (status, body) = get(&bench, FIRST, "/api/v1/nodes/node-11").await.unwrap();
    assert_eq!(status, 503);
    assert!(body.contains("not now") && body.contains("ServiceUnavailable"), "{body}");
    assert_eq!(get(&bench, FIRST, "/api/v1/nodes").await.unwrap().0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_break_before_or_after_the_deed() {
    let bench = control_planes(1, |_| {}).await;
    script(&bench, &format!("{{kube: {MAPS}, method: POST, cut: before}}"));
    assert_eq!(create(&bench, "before").await, None);
    assert!(!is_there(&bench, "before").await);
    script(&bench, &format!("{{kube: {MAPS}, node: 10.0.0.11, cut: after}}"));
    assert_eq!(create(&bench, "after").await, None);
    assert!(is_there(&bench, "after").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_come_late_or_never() {
    let bench = control_planes(1, |_| {}).await;
    script(&bench, "{kube: /version, delay: 60s}");
    let before = bench.realm.now();
    assert_eq!(get(&bench, FIRST, "/version").await.unwrap().0, 200);
    assert!(bench.realm.now().saturating_sub(before) >= Duration::from_mins(1));
    script(&bench, "{kube: /version, node: 11, hang: true}");
    let patience = Duration::from_millis(500);
    let never = Clock::real().timeout(patience, get(&bench, FIRST, "/version")).await;
    assert!(never.is_err());
    assert_eq!(get(&bench, FIRST, "/version").await.unwrap().0, 200);
}
