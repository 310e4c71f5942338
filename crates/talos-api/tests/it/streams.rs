use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use talmox_talos_api::client::{
    Change, Payload, ResourceKind, Since, SnapshotError, check_snapshot,
};
use talmox_talos_api::proto::machine::machine_status_event::MachineStage;
use talmox_talos_api::{Client, TalosError};

use crate::fixture::{Cluster, HOST, Server, host};
use crate::node::{Node, services};

async fn configured() -> (Arc<Node>, Server, Client) {
    let (cluster, node) = (Cluster::new(), Arc::new(Node::default()));
    let server = Server::start(cluster.tls_config(HOST), services(&node)).await;
    let client = Client::new(host(), &cluster.credentials(), &server.settings()).unwrap();
    (node, server, client)
}

#[tokio::test]
async fn events_are_typed_and_end_with_the_connection() {
    let (_node, server, client) = configured().await;
    let mut events = client.events(&Since::TheBeginning, None).await.unwrap();
    let first = events.next().await.unwrap().unwrap();
    assert_eq!((first.id.as_str(), first.actor.0.as_str()), ("1", "actor"));
    let Payload::Machine(status) = first.payload else { panic!("{first:?}") };
    assert_eq!(status.stage(), MachineStage::Running);
    let second = events.next().await.unwrap().unwrap();
    assert!(matches!(second.payload, Payload::Service(service) if service.service == "etcd"));
    // An event of an unknown type, from a later Talos version, is not an error.
    let third = events.next().await.unwrap().unwrap();
    assert_eq!(third.payload, Payload::Other("talos/runtime/machine.FutureEvent".to_owned()));
    server.cut();
    let error = events.next().await.unwrap_err();
    assert!(matches!(error, TalosError::Lost { .. }), "{error:?}");
}

#[tokio::test]
async fn watches_report_changes() {
    let (_node, _server, client) = configured().await;
    let mut watch = client.watch(ResourceKind::MACHINE_STATUS, Some("machine")).await.unwrap();
    let change = watch.next().await.unwrap().unwrap();
    let Change::Created(resource) = change else { panic!("{change:?}") };
    assert_eq!(resource.text("stage").as_deref(), Some("booting"));
    let change = watch.next().await.unwrap().unwrap();
    let Change::Updated(resource) = change else { panic!("{change:?}") };
    assert_eq!(resource.text("status.ready").as_deref(), Some("true"));
}

#[tokio::test]
async fn an_interrupted_stream_is_an_error() {
    let (_node, server, client) = configured().await;
    let mut snapshot = client.etcd_snapshot().await.unwrap();
    let piece = snapshot.next().await.unwrap().unwrap();
    assert_eq!(check_snapshot(&piece), Err(SnapshotError::Length(2048)));
    server.cut();
    let error = snapshot.all().await.unwrap_err();
    assert!(matches!(error, TalosError::Lost { .. }), "{error:?}");
}

#[tokio::test]
async fn a_stream_that_falls_silent_is_late() {
    let (_node, _server, client) = configured().await;
    let client = client.within(Duration::from_secs(5));
    let error = client.etcd_snapshot().await.unwrap().all().await.unwrap_err();
    assert!(matches!(error, TalosError::Late { .. }), "{error:?}");
}

#[tokio::test]
async fn messages_of_the_maximum_size_are_accepted() {
    let (node, _server, client) = configured().await;
    assert_eq!(client.read("/big").await.unwrap().len(), 20 << 20);
    let error = client.read("/too-big").await.unwrap_err();
    assert!(matches!(error, TalosError::No { .. }), "{error:?}");
    client.etcd_recover(&vec![3; 1 << 20]).await.unwrap();
    assert_eq!(node.recovered.load(Ordering::SeqCst), 1 << 20);
}
