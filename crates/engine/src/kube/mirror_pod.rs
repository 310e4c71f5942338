//! Mirror pods: the static pods of a node, as Kubernetes lists them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;

use super::{KubeClient, KubeError};

/// Namespace of the control plane components.
const SYSTEM: &str = "kube-system";

/// Mirror pod of a control plane component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MirrorPod {
    /// The annotations. The kubelet copies them from the static pod that the node runs.
    pub annotations: BTreeMap<String, String>,
    pub is_ready: bool,
}

impl KubeClient {
    /// The mirror pod of a component, such as `kube-apiserver`, on a node. None if Kubernetes does not list it.
    pub async fn mirror_pod(
        &self,
        component: &str,
        node: &str,
    ) -> Result<Option<MirrorPod>, KubeError> {
        let api: Api<Pod> = Api::namespaced(self.inner.clone(), SYSTEM);
        let name = format!("{component}-{node}");
        let found = self.ask(format!("read the pod {name}"), api.get_opt(&name)).await?;
        Ok(found.map(|pod| {
            let conditions = pod.status.and_then(|status| status.conditions).unwrap_or_default();
            let is_ready =
                conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True");
            MirrorPod { annotations: pod.metadata.annotations.unwrap_or_default(), is_ready }
        }))
    }
}
