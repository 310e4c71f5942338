use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_talos_api::{Client, Code, Look, TalosError, Wait, WaitError, wait};

use crate::fixture::{Cluster, HOST, Server, host};
use crate::node::{Node, services};

fn patience(clock: Clock) -> Wait {
    let deadline = clock.deadline(Duration::from_mins(10));
    Wait { clock, deadline, pause: Duration::from_secs(2) }
}

#[tokio::test]
async fn not_yet_is_retried_and_no_is_not() {
    let (cluster, node) = (Cluster::new(), Arc::new(Node::default()));
    let server = Server::start(cluster.face(HOST), services(&node)).await;
    let client = Client::new(host(), &cluster.credentials(), &server.settings()).unwrap();
    let mut heard = vec![];
    let wait = patience(Clock::scaled(20.0));
    let bootstrap = async || client.bootstrap().await.map(Look::Done);
    wait.until(bootstrap, |reason| heard.push(reason.to_owned())).await.unwrap();
    assert_eq!(heard, ["time is not in sync yet"]);
    let error = wait.until(bootstrap, |_| {}).await.unwrap_err();
    assert!(
        matches!(error, WaitError::Refused(TalosError::No { code: Code::AlreadyExists, .. })),
        "{error:?}"
    );
    assert_eq!(node.bootstraps.load(Ordering::SeqCst), 3);
    wait.until(async || wait::service(&client, "etcd").await, |_| {}).await.unwrap();
}

#[tokio::test]
async fn a_wait_reports_the_service_and_the_condition() {
    let cluster = Cluster::new();
    let server = Server::start(cluster.face(HOST), services(&Arc::new(Node::default()))).await;
    let client = Client::new(host(), &cluster.credentials(), &server.settings()).unwrap();
    assert_eq!(
        wait::service(&client, "etcd").await.unwrap(),
        Look::NotYet("etcd is Preparing: no bootstrap yet".to_owned())
    );
    assert_eq!(wait::service(&client, "kubelet").await.unwrap(), Look::Done(()));
    let clock = Clock::scaled(1000.0);
    let deadline = clock.deadline(Duration::from_secs(10));
    let wait = Wait { clock, deadline, pause: Duration::from_secs(1) };
    let late = wait.until(async || wait::machine_ready(&client).await, |_| {}).await.unwrap_err();
    assert_eq!(
        late.to_string(),
        "the time is up, and still: the machine is booting: services: etcd not healthy"
    );
}
