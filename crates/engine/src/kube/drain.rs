//! Cordoning, draining and uncordoning nodes.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{EvictParams, ListParams};
use talmox_clock::{Wait, WaitError};

use super::{KubeClient, KubeError};

/// Annotation of the mirror pods of a kubelet, which cannot be evicted.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Why a node could not be drained.
#[derive(Debug, thiserror::Error)]
pub enum DrainError {
    #[error("drain {node}")]
    Rejected { node: String, source: KubeError },
    #[error("{node} is not drained in time")]
    Wait { node: String, source: WaitError },
}

impl KubeClient {
    /// Keeps new pods off the node. Has no effect on a cordoned node.
    pub async fn cordon(&self, node: &str) -> Result<(), KubeError> {
        let api: Api<Node> = Api::all(self.inner.clone());
        self.ask(format!("cordon {node}"), api.cordon(node)).await.map(|_| ())
    }

    pub async fn uncordon(&self, node: &str) -> Result<(), KubeError> {
        let api: Api<Node> = Api::all(self.inner.clone());
        self.ask(format!("uncordon {node}"), api.uncordon(node)).await.map(|_| ())
    }

    /// Cordons the node and evicts its pods, with retries while their disruption budgets reject the eviction, until they are
    /// gone. Pods of DaemonSets and mirror pods stay.
    pub async fn drain(&self, node: &str, wait: &mut Wait<'_>) -> Result<(), DrainError> {
        let rejected = |source| DrainError::Rejected { node: node.to_owned(), source };
        self.cordon(node).await.map_err(rejected)?;
        loop {
            let reason = match self.pods_to_evict(node).await {
                Ok(pods) if pods.is_empty() => return Ok(()),
                Ok(pods) => {
                    let mut reasons = vec![];
                    for pod in &pods {
                        reasons.extend(self.evict(pod).await.map_err(rejected)?);
                    }
                    reasons.sort();
                    let first = reasons.first().map(|one| format!("; {one}")).unwrap_or_default();
                    format!("{} pods are still on {node}{first}", pods.len())
                }
                Err(error) if error.may_pass() => error.reason(),
                Err(error) => return Err(rejected(error)),
            };
            let late = |source| DrainError::Wait { node: node.to_owned(), source };
            wait.not_yet(reason).await.map_err(late)?;
        }
    }

    async fn pods_to_evict(&self, node: &str) -> Result<Vec<Pod>, KubeError> {
        let api: Api<Pod> = Api::all(self.inner.clone());
        let here = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let pods = self.ask(format!("list the pods on {node}"), api.list(&here)).await?;
        Ok(pods.items.into_iter().filter(must_go).collect())
    }

    /// Evicts a pod. Returns the reason if the pod is still there and the eviction must be retried or awaited.
    async fn evict(&self, pod: &Pod) -> Result<Option<String>, KubeError> {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
        if pod.metadata.deletion_timestamp.is_some() {
            return Ok(Some(format!("{namespace}/{name} is being deleted")));
        }
        let api: Api<Pod> = Api::namespaced(self.inner.clone(), namespace);
        let params = EvictParams::default();
        let asked = api.evict(name, &params);
        match self.ask(format!("evict {namespace}/{name}"), asked).await {
            Ok(_) => Ok(None),
            Err(error) if error.code() == Some(404) => Ok(None),
            Err(error) if error.may_pass() => {
                Ok(Some(format!("{namespace}/{name}: {}", error.reason())))
            }
            Err(error) => Err(error),
        }
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
