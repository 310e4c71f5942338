//! Tests of watches.

use serde_json::json;

use super::cluster::Cluster;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn pair(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_reports_changes_after_a_revision() {
    let cluster = Cluster::start(&[]).await;
    let mut admin = cluster.admin().await;
    let before = admin.get(MAPS).await.body["metadata"]["resourceVersion"].clone();
    let before = before.as_str().unwrap();
    let map =
        |name: &str, color: &str| json!({"metadata": {"name": name, "labels": {"color": color}}});
    admin.post(MAPS, &map("a", "red")).await;
    let query = format!("{MAPS}?watch=true&labelSelector=color%3Dred&resourceVersion={before}");
    let mut events = cluster.admin().await.watch(&query).await;
    assert_eq!(events.next_name().await, pair("ADDED", "a"));
    admin.post(MAPS, &map("b", "blue")).await;
    admin.patch(&format!("{MAPS}/a"), "merge-patch+json", &json!({"data": {"x": "1"}})).await;
    assert_eq!(events.next_name().await, pair("MODIFIED", "a"));
    let paint = |color: &str| json!({"metadata": {"labels": {"color": color}}});
    admin.patch(&format!("{MAPS}/b"), "merge-patch+json", &paint("red")).await;
    assert_eq!(events.next_name().await, pair("ADDED", "b"));
    admin.patch(&format!("{MAPS}/a"), "merge-patch+json", &paint("blue")).await;
    assert_eq!(events.next_name().await, pair("DELETED", "a"));
    admin.delete(&format!("{MAPS}/b")).await;
    assert_eq!(events.next_name().await, pair("DELETED", "b"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_can_start_with_initial_events_and_a_bookmark() {
    let cluster = Cluster::start(&[]).await;
    let mut admin = cluster.admin().await;
    admin.post(MAPS, &json!({"metadata": {"name": "a", "labels": {"mine": ""}}})).await;
    let query = format!(
        "{MAPS}?watch=1&labelSelector=mine&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1"
    );
    let mut events = admin.watch(&query).await;
    assert_eq!(events.next_name().await, pair("ADDED", "a"));
    let bookmark = events.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    let annotations = &bookmark["object"]["metadata"]["annotations"];
    assert_eq!(annotations["k8s.io/initial-events-end"], "true");
    assert_eq!(events.next().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_from_an_expired_revision_gets_410() {
    let cluster = Cluster::start(&[]).await;
    let mut admin = cluster.admin().await;
    cluster
        .store
        .create("configmaps", json!({"metadata": {"name": "a", "namespace": "default"}}))
        .unwrap();
    for at in 0..1100 {
        cluster
            .store
            .change("configmaps", "default", "a", |map| map["data"]["n"] = at.to_string().into());
    }
    let answer = admin.get(&format!("{MAPS}?watch=true&resourceVersion=1")).await;
    assert_eq!((answer.status, &answer.body["reason"]), (410, &json!("Expired")));
}
