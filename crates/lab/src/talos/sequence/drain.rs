//! A node that leaves its cluster for a while: no pods are put there, and those that are move.

use std::sync::Arc;

use serde_json::Value;

use super::super::land::{Land, Node};
use super::super::realm::Realm;
use super::run::Run;
use crate::kube::KubeStore;

/// Marks nodes that Talos itself keeps pods away from: it lets them back after the next boot.
const CORDONED: &str = "talos.dev/cordoned";

/// Cordons and drains, and tells of it. False where the sequence is over.
pub(super) async fn drain(run: &Run) -> bool {
    if !run.open("drain", "cordonAndDrainNode") {
        return false;
    }
    let found = run.realm.look(|land| {
        let node = land.nodes.get(&run.vmid)?;
        Some((store(land, node)?, node.hostname().to_owned()))
    });
    // Without an API server there is nobody to ask, and the sequence goes on.
    if let Some((store, name)) = found {
        cordon(&store, &name);
        for (namespace, pod) in pods_of(&store, &name) {
            // What a budget protects stays; Talos gives up on it after a while.
            store.delete("pods", &namespace, &pod).ok();
        }
        run.realm.site.wait(crate::pve::Work::Service, &format!("drain/{name}")).await;
    }
    run.close("drain", "cordonAndDrainNode")
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

impl Realm {
    /// Lets pods back onto a node that was cordoned by Talos itself.
    pub(super) fn uncordon(self: &Arc<Self>, vmid: u32) {
        let found = self.look(|land| {
            let node = land.nodes.get(&vmid)?;
            Some((store(land, node)?, node.hostname().to_owned()))
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

/// The memory of the node's Kubernetes cluster.
fn store(land: &Land, node: &Node) -> Option<Arc<KubeStore>> {
    let facts = &node.config.as_ref()?.facts;
    let own = node.etcd.and_then(|part| land.etcds.get(&part.cluster));
    let mut all = land.etcds.values();
    let cluster = own.or_else(|| all.find(|etcd| etcd.talos_cluster == facts.cluster_id))?;
    Some(Arc::clone(&cluster.store))
}

/// Pods that move: not those of the kubelet itself, nor those that run on every node.
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
