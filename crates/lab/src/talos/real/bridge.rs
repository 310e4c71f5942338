//! Tells a real API server what the simulated kubelets say.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use talmox_clock::Clock;

use super::RealCluster;
use super::client::Client;
use crate::kube::KubeStore;
use crate::kube::object::{annotation, list, name, namespace, text};

/// Between two rounds, in real time: leases are renewed in it.
const ROUND: Duration = Duration::from_secs(2);
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Goes on for as long as it is not dropped.
pub(crate) async fn tell(cluster: Arc<RealCluster>, store: Arc<KubeStore>) {
    let Ok(client) = Client::new(&cluster) else { return };
    let mut bridge = Bridge { client, store, known: BTreeSet::new() };
    loop {
        // While it starts nobody answers, and the next round tries again.
        bridge.round().await.ok();
        Clock::real().sleep(ROUND).await;
    }
}

struct Bridge {
    client: Client,
    store: Arc<KubeStore>,
    /// What was made once; what somebody deleted since is not made again.
    known: BTreeSet<String>,
}

impl Bridge {
    async fn round(&mut self) -> Result<(), String> {
        for (id, path) in [
            ("namespaces", "/api/v1/namespaces"),
            (
                "clusterroles.rbac.authorization.k8s.io",
                "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            ),
            (
                "clusterrolebindings.rbac.authorization.k8s.io",
                "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            ),
            ("serviceaccounts", "/api/v1/namespaces/{}/serviceaccounts"),
            ("configmaps", "/api/v1/namespaces/{}/configmaps"),
            ("secrets", "/api/v1/namespaces/{}/secrets"),
            ("daemonsets.apps", "/apis/apps/v1/namespaces/{}/daemonsets"),
            ("deployments.apps", "/apis/apps/v1/namespaces/{}/deployments"),
        ] {
            for object in self.store.list(id) {
                let path = path.replace("{}", namespace(&object));
                self.make(&path, &object).await?;
            }
        }
        for node in self.store.list("nodes") {
            self.make("/api/v1/nodes", &node).await?;
            let path = format!("/api/v1/nodes/{}/status", name(&node));
            self.client.merge(&path, &json!({"status": node["status"]})).await?;
            self.renew(&node).await?;
        }
        for pod in self.store.list("pods") {
            if annotation(&pod, MIRROR).is_some() {
                let path = format!("/api/v1/namespaces/{}/pods", namespace(&pod));
                self.make(&path, &pod).await?;
            }
        }
        self.run_pods().await
    }

    /// Makes an object once, as it is but for what only its own API server may say.
    async fn make(&mut self, path: &str, object: &Value) -> Result<(), String> {
        let key = format!("{path}/{}", name(object));
        if self.known.contains(&key) {
            return Ok(());
        }
        let mut new = object.clone();
        if let Some(metadata) = new["metadata"].as_object_mut() {
            for own in [
                "uid",
                "resourceVersion",
                "creationTimestamp",
                "generation",
                "ownerReferences",
                "managedFields",
            ] {
                metadata.remove(own);
            }
        }
        let status = self.client.create(path, &new).await?;
        if matches!(status, 200..=299 | 409) {
            self.known.insert(key);
        }
        Ok(())
    }

    /// A node whose kubelet says nothing has no lease.
    async fn renew(&self, node: &Value) -> Result<(), String> {
        let ready = list(node, "/status/conditions").iter().find(|one| one["type"] == "Ready");
        if ready.is_some_and(|ready| ready["status"] == "Unknown") {
            return Ok(());
        }
        let now = Clock::real().since_epoch();
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let time = talmox_talos_config::time::UnixTime::from_seconds(seconds).to_string();
        let time = time.replace('Z', &format!(".{:06}Z", now.subsec_micros()));
        let spec =
            json!({"holderIdentity": name(node), "leaseDurationSeconds": 40, "renewTime": time});
        let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
        let path = format!("{leases}/{}", name(node));
        if self.client.merge(&path, &json!({"spec": spec})).await? == 404 {
            let metadata = json!({"name": name(node), "namespace": "kube-node-lease"});
            self.client.create(leases, &json!({"metadata": metadata, "spec": spec})).await?;
        }
        Ok(())
    }

    /// Pods that have a node of ours run.
    async fn run_pods(&self) -> Result<(), String> {
        let (_, pods) =
            self.client.get("/api/v1/pods?fieldSelector=status.phase%3DPending").await?;
        for pod in list(&pods, "/items") {
            let node = self.store.get("nodes", "", text(pod, "/spec/nodeName"));
            let Some(node) = node else { continue };
            let address = text(&node, "/status/addresses/0/address");
            let conditions = ["Initialized", "Ready", "ContainersReady", "PodScheduled"]
                .map(|kind| json!({"type": kind, "status": "True"}));
            let containers = list(pod, "/spec/containers").iter().map(|container| {
                json!({
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": "",
                    "ready": true,
                    "started": true,
                    "restartCount": 0,
                    "state": {"running": {}},
                })
            });
            let status = json!({
                "phase": "Running",
                "hostIP": address,
                "podIP": address,
                "podIPs": [{"ip": address}],
                "conditions": conditions,
                "containerStatuses": containers.collect::<Vec<_>>(),
            });
            let path = format!("/api/v1/namespaces/{}/pods/{}/status", namespace(pod), name(pod));
            self.client.merge(&path, &json!({"status": status})).await?;
        }
        Ok(())
    }
}
