//! Cordon and drain of a node, before a sequence that stops the node.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use talmox_lab_kube::KubeStore;

use super::super::simulation::Simulation;
use super::super::talos_state::{Node, TalosState};
use super::sequence_run::SequenceRun;

/// Annotation of a node that Talos cordoned. Talos uncordons the node after the next boot.
const CORDONED: &str = "talos.dev/cordoned";
/// Timeout for the eviction of all pods.
const DRAINED_FOR: Duration = Duration::from_mins(5);
const ASKED_AGAIN: Duration = Duration::from_secs(5);
/// Status of an eviction that a PodDisruptionBudget forbids.
const TOO_MANY_REQUESTS: u16 = 429;

/// Cordons and drains the node, and reports the phase. Returns false if the sequence has ended.
pub(super) async fn drain(run: &SequenceRun) -> bool {
    if !run.open("drain", "cordonAndDrainNode") {
        return false;
    }
    let found = run.simulation.look(|talos| {
        let node = talos.nodes.get(&run.vmid)?;
        Some((store(talos, node)?, node.hostname().to_owned()))
    });
    // Without an API server, the node cannot be drained. The sequence continues anyway.
    if let Some((store, name)) = found {
        cordon(&store, &name);
        evict(run, &store, pods_of(&store, &name)).await;
        run.simulation
            .environment
            .wait(talmox_lab_environment::Work::Service, &format!("drain/{name}"))
            .await;
    }
    run.close("drain", "cordonAndDrainNode")
}

/// Evicts the pods. An eviction is retried while a PodDisruptionBudget forbids it. After the timeout, the remaining pods stay
/// and the sequence continues.
async fn evict(run: &SequenceRun, store: &KubeStore, mut pods: Vec<(String, String)>) {
    let clock = run.simulation.clock();
    let deadline = clock.deadline(DRAINED_FOR);
    loop {
        pods.retain(|(namespace, pod)| {
            store.evict(namespace, pod).is_err_and(|rejection| rejection.code == TOO_MANY_REQUESTS)
        });
        if pods.is_empty() || deadline.has_passed() || !run.holds_lock() {
            return;
        }
        clock.sleep(ASKED_AGAIN).await;
    }
}

fn cordon(store: &KubeStore, name: &str) {
    store.change("nodes", "", name, |node| {
        if node["spec"]["unschedulable"] == true {
            return;
        }
        node["spec"]["unschedulable"] = true.into();
        node["metadata"]["annotations"][CORDONED] = "true".into();
    });
}

impl Simulation {
    /// Uncordons a node, if Talos cordoned it.
    pub(super) fn uncordon(self: &Arc<Self>, vmid: u32) {
        let found = self.look(|talos| {
            let node = talos.nodes.get(&vmid)?;
            Some((store(talos, node)?, node.hostname().to_owned()))
        });
        let Some((store, name)) = found else { return };
        store.change("nodes", "", &name, |node| {
            if node["metadata"]["annotations"][CORDONED] != "true" {
                return;
            }
            if let Some(annotations) = node["metadata"]["annotations"].as_object_mut() {
                annotations.remove(CORDONED);
            }
            if let Some(spec) = node["spec"].as_object_mut() {
                spec.remove("unschedulable");
            }
        });
    }
}

/// Store of the Kubernetes cluster that the node belongs to.
fn store(talos: &TalosState, node: &Node) -> Option<Arc<KubeStore>> {
    let facts = &node.config.as_ref()?.facts;
    let own = node.etcd.and_then(|part| talos.etcds.get(&part.cluster));
    let mut all = talos.etcds.values();
    let cluster = own.or_else(|| all.find(|etcd| etcd.talos_cluster == facts.cluster_id))?;
    Some(Arc::clone(&cluster.store))
}

/// Pods that a drain evicts: all pods except static pods and pods of DaemonSets.
fn pods_of(store: &KubeStore, node: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pods = store.list("pods");
    let own = pods.iter().filter(|pod| pod["spec"]["nodeName"] == node);
    let moving = own.filter(|pod| {
        let owners = pod["metadata"]["ownerReferences"].as_array();
        let mut owners = owners.into_iter().flatten();
        let is_mirror = !pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_null();
        !is_mirror && !owners.any(|owner| owner["kind"] == "DaemonSet" || owner["kind"] == "Node")
    });
    moving
        .map(|pod| (text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"])))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::etcd;
    use crate::talos_state::Stage;
    use crate::test_bench::Bench;
    use talmox_lab_kube::object::has_condition;

    #[tokio::test(flavor = "multi_thread")]
    async fn protected_pods_stay_and_the_sequence_continues() {
        let bench = Bench::new();
        let boot = bench.start_control_plane(11);
        etcd::bootstrap(&bench.simulation, 11, boot, None).unwrap();
        bench.until_healthy(11, "etcd").await;
        let store = bench.store_of(11);
        let is_ready = |object: &Value| has_condition(object, "Ready");
        bench.until_object(&store, ("nodes", "", "node-11"), is_ready).await;
        for name in ["kept", "moved"] {
            let pod = json!({
                "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
                "spec": {"nodeName": "node-11", "containers": [{"name": "a", "image": "a"}]},
            });
            store.create("pods", pod).unwrap();
        }
        let budget = json!({
            "metadata": {"name": "kept", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}},
        });
        store.create("poddisruptionbudgets.policy", budget).unwrap();
        bench.until_object(&store, ("pods", "default", "kept"), is_ready).await;

        let (_, run) =
            SequenceRun::start(&bench.simulation, 11, boot, "reset", Stage::Resetting).unwrap();
        let before = bench.simulation.clock().moment();
        assert!(drain(&run.unwrap()).await);
        assert!(bench.simulation.clock().moment().since(before) >= DRAINED_FOR);
        let is_being_deleted = |name: &str| {
            let pod = store.get("pods", "default", name);
            pod.is_none_or(|pod| !pod["metadata"]["deletionTimestamp"].is_null())
        };
        assert!(is_being_deleted("moved") && !is_being_deleted("kept"));
    }
}
