//! A separate Kubernetes cluster for each test, at the addresses that a real cluster would have.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use talmox_clock::{Chance, Clock, Wait};
use talmox_engine::kube::{KubeClient, endpoints};
use talmox_lab::kube::{
    KubeControllers, KubeServer, KubeSettings, KubeStore, KubeTls, Machine, control, serve,
};
use talmox_talos_api::{Limits, Reach, Settings};
use talmox_talos_config::pki::AltName;
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secrets::Bundle;
use talmox_talos_config::time::UnixTime;
use tokio::net::TcpListener;

use crate::support::bundle;

pub(crate) const VIP: &str = "10.0.0.20";

pub(crate) struct Cluster {
    pub(crate) clock: Clock,
    pub(crate) store: Arc<KubeStore>,
    pub(crate) address: SocketAddr,
    pub(crate) server: KubeServer,
    tls: KubeTls,
    _controllers: KubeControllers,
}

impl Cluster {
    /// Starts a cluster with these nodes. Its time passes a hundred times as fast as real time.
    pub(crate) async fn start(nodes: &[&str]) -> Self {
        let clock = Clock::scaled(100.0);
        let authority = bundle().certs.k8s.authority().unwrap();
        let store = KubeStore::new(KubeSettings {
            clock,
            chance: Chance::new(7),
            pod_start: Duration::from_secs(2),
            service_network: [10, 96, 0],
            pod_network: [10, 244],
            authority: authority.certificate.to_pem(),
        });
        let now = UnixTime::from_seconds(clock.unix().try_into().unwrap());
        let names = [VIP, "10.0.0.11", "10.0.0.12"].map(|name| AltName::Ip(name.parse().unwrap()));
        let randomness = &mut SystemRandomness::new();
        let tls = KubeTls::issue(&authority, names.to_vec(), now, randomness).unwrap();
        let (address, server) = listen(&tls, &store).await;
        let controllers = control(Arc::clone(&store));
        for (at, name) in nodes.iter().enumerate() {
            store.start_kubelet(machine(name, at));
        }
        Self { clock, store, address, server, tls, _controllers: controllers }
    }

    /// Starts a cluster with a pod network, and waits until all nodes are ready.
    pub(crate) async fn start_ready(nodes: &[&str]) -> Self {
        let cluster = Self::start(nodes).await;
        cluster.store.create("daemonsets.apps", flannel()).unwrap();
        for node in nodes {
            cluster.until(|store| is_ready(&store.get("nodes", "", node).unwrap())).await;
        }
        cluster
    }

    /// Starts one more API server, as on another control plane.
    pub(crate) async fn listen(&self) -> (SocketAddr, KubeServer) {
        listen(&self.tls, &self.store).await
    }

    /// Settings with a reach map from these addresses to these sockets.
    pub(crate) fn settings(&self, reach: &[(&str, SocketAddr)]) -> Settings {
        let mut settings = Settings::new(self.clock);
        settings.reach =
            Reach::new(reach.iter().map(|(host, at)| (format!("{host}:6443"), at.to_string())));
        settings.limits = Limits { connect: Duration::from_secs(20), ..Limits::default() };
        settings
    }

    /// Client with administrator rights that uses the shared address.
    pub(crate) fn admin(&self) -> KubeClient {
        self.client(bundle(), &[(VIP, self.address)])
    }

    /// Client with a certificate from this secrets bundle.
    pub(crate) fn client(&self, bundle: &Bundle, reach: &[(&str, SocketAddr)]) -> KubeClient {
        let hosts = endpoints(reach.iter().map(|(host, _)| *host));
        let settings = self.settings(reach);
        KubeClient::new(bundle, &hosts, &settings, &mut SystemRandomness::new()).unwrap()
    }

    pub(crate) async fn until(&self, is_so: impl Fn(&KubeStore) -> bool) {
        let clock = Clock::real();
        for _ in 0..6000 {
            if is_so(&self.store) {
                return;
            }
            clock.sleep(Duration::from_millis(10)).await;
        }
        panic!("it does not come to be so");
    }

    /// A wait with this timeout, in minutes of the simulated time of the cluster.
    pub(crate) fn wait(&self, minutes: u64) -> Wait<'static> {
        let deadline = self.clock.deadline(Duration::from_mins(minutes));
        Wait::new(self.clock, deadline, "the add-on").pausing(Duration::from_secs(2))
    }
}

async fn listen(tls: &KubeTls, store: &Arc<KubeStore>) -> (SocketAddr, KubeServer) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (address, serve(listener, tls.clone(), "v1.32.4", Arc::clone(store)))
}

pub(crate) fn is_ready(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"))
}

pub(crate) fn machine(name: &str, at: usize) -> Machine {
    let is_control_plane = name.starts_with("cp");
    let role = "node-role.kubernetes.io/control-plane";
    let components = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];
    let pods = components.map(|component| {
        json!({
            "metadata": {
                "name": component,
                "namespace": "kube-system",
                "labels": {"k8s-app": component, "tier": "control-plane"},
            },
            "spec": {
                "hostNetwork": true,
                "containers": [{"name": component, "image": format!("{component}:v1.32.4")}],
                "tolerations": [{"operator": "Exists"}],
            },
        })
    });
    Machine {
        name: name.to_owned(),
        address: format!("10.0.0.{}", at + 11),
        kubelet_version: "v1.32.4".to_owned(),
        cpus: 4,
        memory_bytes: 8 << 30,
        labels: if is_control_plane {
            BTreeMap::from([(role.to_owned(), String::new())])
        } else {
            BTreeMap::new()
        },
        taints: if is_control_plane {
            vec![json!({"key": role, "effect": "NoSchedule"})]
        } else {
            vec![]
        },
        static_pods: if is_control_plane { pods.to_vec() } else { vec![] },
        ..Machine::default()
    }
}

pub(crate) fn flannel() -> Value {
    json!({
        "metadata": {"name": "kube-flannel", "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": {"k8s-app": "flannel"}},
            "template": {
                "metadata": {"labels": {"k8s-app": "flannel"}},
                "spec": {
                    "hostNetwork": true,
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "kube-flannel", "image": "flannel:v0.26"}],
                },
            },
        },
    })
}
