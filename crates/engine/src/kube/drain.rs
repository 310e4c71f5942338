//! Cordoning, draining and uncordoning nodes.

use std::fmt;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{EvictParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use talmox_plan::observed::CordonedBy;
use talmox_plan::plan::CORDONED;

use super::view::facts;
use super::{FIELD_MANAGER, KubeClient, KubeError};

/// Annotation of the mirror pods of a kubelet, which cannot be evicted.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The state of a node that draining depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCordon {
    /// Whether talmox or another client cordoned the node. None if the node is not cordoned.
    pub by: Option<CordonedBy>,
    /// Whether the node has the annotation that talmox sets when it cordons a node. A node that was uncordoned later may
    /// still have it.
    pub is_marked: bool,
    pub is_ready: bool,
    /// Why the node is not ready.
    pub reason: String,
    /// Whether the kubelet has stopped reporting. The pods of such a node never end.
    pub is_lost: bool,
    version: Option<String>,
}

/// A pod that must leave a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeavingPod {
    pub namespace: String,
    pub name: String,
    /// Whether the pod was evicted or deleted, and is ending.
    pub is_ending: bool,
}

impl fmt::Display for LeavingPod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl KubeClient {
    /// Reads whether a node is cordoned. None if Kubernetes has no such node.
    pub async fn node_cordon(&self, node: &str) -> Result<Option<NodeCordon>, KubeError> {
        let api: Api<Node> = Api::all(self.inner.clone());
        let found = self.ask(format!("read the node {node}"), api.get_opt(node)).await?;
        Ok(found.as_ref().map(node_cordon))
    }

    /// Keeps new pods off a node, and marks it as cordoned by talmox, in one patch. Kubernetes rejects the patch with 409 if
    /// the node has changed since it was read, because another client may have cordoned it.
    pub async fn cordon(&self, node: &str, found: &NodeCordon) -> Result<(), KubeError> {
        let patch = json!({
            "metadata": {"resourceVersion": found.version, "annotations": {CORDONED: "true"}},
            "spec": {"unschedulable": true},
        });
        self.patch_node(format!("cordon {node}"), node, &patch).await
    }

    /// Lets Kubernetes schedule pods on a node again, and removes the annotation of talmox, in one patch. Kubernetes rejects
    /// the patch with 409 if the node has changed since it was read.
    pub async fn uncordon(&self, node: &str, found: &NodeCordon) -> Result<(), KubeError> {
        let patch = json!({
            "metadata": {"resourceVersion": found.version, "annotations": {CORDONED: null}},
            "spec": {"unschedulable": null},
        });
        self.patch_node(format!("uncordon {node}"), node, &patch).await
    }

    async fn patch_node(
        &self,
        operation: String,
        node: &str,
        patch: &Value,
    ) -> Result<(), KubeError> {
        let api: Api<Node> = Api::all(self.inner.clone());
        let field_manager = Some(FIELD_MANAGER.to_owned());
        let params = PatchParams { field_manager, ..PatchParams::default() };
        let patch = Patch::Merge(patch);
        self.ask(operation, api.patch(node, &params, &patch)).await.map(|_| ())
    }

    /// The pods that must leave a node, as for `kubectl drain --ignore-daemonsets --delete-emptydir-data --force`: pods of DaemonSets
    /// and mirror pods stay. Pods that have ended stay as well.
    pub async fn pods_to_evict(&self, node: &str) -> Result<Vec<LeavingPod>, KubeError> {
        let api: Api<Pod> = Api::all(self.inner.clone());
        let here = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let pods = self.ask(format!("list the pods on {node}"), api.list(&here)).await?;
        let leaving = |pod: &Pod| LeavingPod {
            namespace: pod.metadata.namespace.clone().unwrap_or_else(|| "default".to_owned()),
            name: pod.metadata.name.clone().unwrap_or_default(),
            is_ending: pod.metadata.deletion_timestamp.is_some(),
        };
        Ok(pods.items.iter().filter(|pod| must_go(pod)).map(leaving).collect())
    }

    /// Evicts a pod. Returns the reason if the eviction must be retried.
    pub async fn evict(&self, pod: &LeavingPod) -> Result<Option<String>, KubeError> {
        let api: Api<Pod> = Api::namespaced(self.inner.clone(), &pod.namespace);
        let params = EvictParams::default();
        let asked = api.evict(&pod.name, &params);
        match self.ask(format!("evict {pod}"), asked).await {
            Ok(_) => Ok(None),
            Err(error) if error.code() == Some(404) => Ok(None),
            Err(error) if error.may_pass() || is_namespace_ending(&error) => {
                Ok(Some(budget(&error).unwrap_or_else(|| error.reason())))
            }
            Err(error) => Err(error),
        }
    }
}

/// The message about the disruption budget that does not allow an eviction. The message contains the name of the budget.
fn budget(error: &KubeError) -> Option<String> {
    let KubeError::Rejected { status, .. } = error else { return None };
    let mut causes = status.details.as_ref()?.causes.iter();
    causes.find(|cause| cause.reason == "DisruptionBudget").map(|cause| cause.message.clone())
}

/// Whether an eviction was rejected because the namespace of the pod is being deleted. Deleting the namespace deletes the
/// pod.
fn is_namespace_ending(error: &KubeError) -> bool {
    let KubeError::Rejected { status, .. } = error else { return false };
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 403 && causes.any(|cause| cause.reason == "NamespaceTerminating")
}

fn node_cordon(node: &Node) -> NodeCordon {
    let is_marked = node.metadata.annotations.iter().flatten().any(|(key, _)| key == CORDONED);
    let known = facts(node);
    let by = match (known.is_schedulable, is_marked) {
        (true, _) => None,
        (false, true) => Some(CordonedBy::Talmox),
        (false, false) => Some(CordonedBy::Other),
    };
    let mut conditions = node.status.iter().flat_map(|status| &status.conditions).flatten();
    NodeCordon {
        by,
        is_marked,
        is_ready: known.is_ready,
        reason: known.reason,
        is_lost: conditions.any(|one| one.type_ == "Ready" && one.status == "Unknown"),
        version: node.metadata.resource_version.clone(),
    }
}

fn must_go(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let is_over = matches!(phase, Some("Succeeded" | "Failed"));
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let of_daemon_set = owners.any(|owner| owner.kind == "DaemonSet");
    let is_mirror = pod.metadata.annotations.iter().flatten().any(|(key, _)| key == MIRROR);
    !is_over && !of_daemon_set && !is_mirror
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_pods_mirror_pods_and_pods_of_daemon_sets_stay() {
        let stays = [
            json!({"status": {"phase": "Succeeded"}}),
            json!({"status": {"phase": "Failed"}}),
            json!({"metadata": {"annotations": {MIRROR: "x"}}}),
            json!({"metadata": {"ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "a", "uid": "b"},
            ]}}),
        ];
        let goes = [
            json!({"status": {"phase": "Running"}}),
            json!({"spec": {"containers": [], "volumes": [{"name": "a", "emptyDir": {}}]}}),
            json!({"metadata": {"ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a", "uid": "b"},
            ]}}),
        ];
        let must_go = |pod: &Value| must_go(&serde_json::from_value(pod.clone()).unwrap());
        assert!(!stays.iter().any(must_go));
        assert!(goes.iter().all(must_go));
    }
}
