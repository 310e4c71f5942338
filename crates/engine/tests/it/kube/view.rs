use std::net::SocketAddr;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_engine::kube::KubeError;
use talmox_talos_api::health::{KubeNode, Replicas};
use talmox_talos_config::pki::{KeyKind, PrivateKey};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secrets::generate_with;
use talmox_talos_config::time::UnixTime;
use tokio::net::TcpListener;

use super::cluster::{Cluster, VIP};
use crate::support::bundle;

#[tokio::test]
async fn the_view_has_nodes_and_components() {
    let cluster = Cluster::start_ready(&["cp-1", "worker-1"]).await;
    let admin = cluster.admin();
    assert_eq!(admin.version().await.unwrap(), "v1.32.4");
    cluster
        .until(|store| {
            let pods = store.list("pods");
            pods.len() >= 5 && pods.iter().all(|pod| pod["status"]["phase"] == "Running")
        })
        .await;
    let view = admin.view().await.unwrap();
    let node = |name: &str, address: &str| KubeNode {
        name: name.to_owned(),
        internal_addresses: vec![address.parse().unwrap()],
        is_ready: true,
        is_schedulable: true,
    };
    assert_eq!(view.nodes, [node("cp-1", "10.0.0.11"), node("worker-1", "10.0.0.12")]);
    let mut components: Vec<&str> =
        view.control_plane_pods.iter().map(|pod| pod.component.as_str()).collect();
    components.sort_unstable();
    assert_eq!(components, ["kube-apiserver", "kube-controller-manager", "kube-scheduler"]);
    let host = "10.0.0.11".parse().ok();
    assert!(view.control_plane_pods.iter().all(|pod| pod.host == host));
    assert_eq!((view.kube_proxy, view.core_dns), (None, None));

    let mut proxy = super::cluster::flannel();
    proxy["metadata"]["name"] = "kube-proxy".into();
    cluster.store.create("daemonsets.apps", proxy).unwrap();
    let desired = Some(Replicas { desired: 2, ready: 2 });
    cluster
        .until(|store| {
            let set = store.get("daemonsets.apps", "kube-system", "kube-proxy").unwrap();
            set["status"]["numberReady"] == 2
        })
        .await;
    assert_eq!(admin.view().await.unwrap().kube_proxy, desired);
}

#[tokio::test]
async fn a_node_without_a_network_is_not_ready_with_a_reason() {
    let cluster = Cluster::start(&["cp-1"]).await;
    let admin = cluster.admin();
    cluster.until(|store| store.list("nodes").len() == 1).await;
    let nodes = admin.nodes().await.unwrap();
    assert!(!nodes[0].is_ready);
    assert!(nodes[0].reason.contains("cni"), "{}", nodes[0].reason);
    assert_eq!(nodes[0].kubelet_version, "v1.32.4");
}

/// A listener that accepts connections and sends nothing, like a shared address that no control plane has.
async fn silence() -> (SocketAddr, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    (listener.local_addr().unwrap(), listener)
}

#[tokio::test]
async fn any_endpoint_that_answers_is_used() {
    let cluster = Cluster::start(&["cp-1"]).await;
    let (quiet, _listener) = silence().await;
    let (other, second) = cluster.listen().await;
    let ways = [(VIP, quiet), ("10.0.0.11", cluster.address), ("10.0.0.12", other)];
    let client = cluster.client(bundle(), &ways);
    assert_eq!(client.version().await.unwrap(), "v1.32.4");
    // The server that answered stops while the client is in use.
    cluster.server.stop().await;
    assert_eq!(client.version().await.unwrap(), "v1.32.4");
    second.stop().await;
}

#[tokio::test]
async fn an_unreachable_api_is_reported_with_its_endpoint() {
    let cluster = Cluster::start(&[]).await;
    let admin = cluster.admin();
    let Cluster { server, .. } = cluster;
    server.stop().await;
    let error = admin.version().await.unwrap_err();
    assert!(matches!(error, KubeError::Unreachable { .. }), "{error:?}");
    assert!(error.may_pass());
    assert!(error.reason().starts_with("cannot connect to 10.0.0.20:6443: "), "{}", error.reason());
}

#[tokio::test]
async fn an_api_of_another_cluster_gets_no_request() {
    let cluster = Cluster::start(&[]).await;
    let mut randomness = SystemRandomness::new();
    let key = PrivateKey::generate(KeyKind::EcdsaP256, &mut randomness);
    let now = UnixTime::from_seconds(Clock::real().unix().try_into().unwrap());
    let made = now.minus(Duration::from_hours(24));
    let other = generate_with(&key, made, &mut randomness).unwrap();
    let client = cluster.client(&other, &[(VIP, cluster.address)]);
    let error = client.version().await.unwrap_err();
    assert!(error.reason().starts_with("no TLS connection to 10.0.0.20:6443"), "{error:?}");
}
