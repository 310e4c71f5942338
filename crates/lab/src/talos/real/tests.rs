//! Against real programs, where there are any.

use std::env;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_talos_config::generate::Role;

use super::RealKubernetes;
use super::client::Client;
use super::process::RealCluster;
use crate::talos::bench::Bench;

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "a test finds what it needs by the environment")]
async fn a_real_api_server_answers_by_the_name_of_a_node() {
    let programs = (env::var_os("TALMOX_KUBE_APISERVER"), env::var_os("TALMOX_ETCD"));
    let (Some(apiserver), Some(etcd)) = programs else {
        // Past the harness, which keeps to itself what a test that passes prints.
        let text = b"SKIPPED: TALMOX_KUBE_APISERVER and TALMOX_ETCD name no programs to run\n";
        std::io::Write::write_all(&mut std::io::stderr(), text).unwrap();
        return;
    };
    let programs = RealKubernetes { apiserver: apiserver.into(), etcd: etcd.into() };
    let bench = Bench::new();
    let config = bench.config(&bench.bundle, Role::ControlPlane, |_| {});
    let cluster = RealCluster::start(&programs, &config.facts).unwrap();
    cluster.answer_to(&["10.0.0.11".to_owned()].into()).unwrap();
    let client = Client::new(&cluster).unwrap();
    let deadline = Clock::real().deadline(Duration::from_mins(1));
    while client.get("/readyz").await.map(|(status, _)| status) != Ok(200) {
        assert!(!deadline.has_passed(), "it is never ready");
        Clock::real().sleep(Duration::from_millis(200)).await;
    }
    let (status, namespaces) = client.get("/api/v1/namespaces").await.unwrap();
    assert_eq!((status, namespaces["kind"].as_str()), (200, Some("NamespaceList")));
}
