use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use talmox_clock::{Clock, Wait, WaitError};
use talmox_talos_api::{Client, Code, Look, LookError, TalosError, wait};

use crate::fixture::{Cluster, HOST, Server, host};
use crate::node::{Node, services};

#[tokio::test]
async fn not_yet_is_retried_and_no_is_not() {
    let (cluster, node) = (Cluster::new(), Arc::new(Node::default()));
    let server = Server::start(cluster.tls_config(HOST), services(&node)).await;
    let client = Client::new(host(), &cluster.credentials(), &server.settings()).unwrap();
    let reported = Mutex::new(vec![]);
    let report = |reason: &str| reported.lock().unwrap().push(reason.to_owned());
    let clock = Clock::scaled(20.0);
    let mut wait = Wait::new(clock, clock.deadline(Duration::from_mins(10)), "the node")
        .pausing(Duration::from_secs(2))
        .reporting(report);
    let bootstrap = async || client.bootstrap().await.map(Look::Done);
    wait::until(&mut wait, bootstrap).await.unwrap();
    assert_eq!(*reported.lock().unwrap(), ["waiting for the node: time is not in sync yet"]);
    let error = wait::until(&mut wait, bootstrap).await.unwrap_err();
    assert!(
        matches!(error, LookError::Rejected(TalosError::No { code: Code::AlreadyExists, .. })),
        "{error:?}"
    );
    assert_eq!(node.bootstraps.load(Ordering::SeqCst), 3);
    wait::until(&mut wait, async || wait::service(&client, "etcd").await).await.unwrap();
}

#[tokio::test]
async fn a_wait_reports_the_service_and_the_condition() {
    let cluster = Cluster::new();
    let server =
        Server::start(cluster.tls_config(HOST), services(&Arc::new(Node::default()))).await;
    let client = Client::new(host(), &cluster.credentials(), &server.settings()).unwrap();
    assert_eq!(
        wait::service(&client, "etcd").await.unwrap(),
        Look::NotYet("etcd is Preparing: no bootstrap yet".to_owned())
    );
    assert_eq!(wait::service(&client, "kubelet").await.unwrap(), Look::Done(()));
    assert_eq!(
        wait::time_sync(&client).await.unwrap(),
        Look::NotYet("time is not in sync yet".to_owned())
    );
    let clock = Clock::scaled(1000.0);
    let mut wait = Wait::new(clock, clock.deadline(Duration::from_secs(10)), "the node");
    let late = wait::until(&mut wait, async || wait::machine_ready(&client).await).await;
    let Err(LookError::Wait(WaitError::TimedOut { reason, .. })) = late else { panic!("{late:?}") };
    assert_eq!(reason, "the machine is booting: services: etcd not healthy");
}
