//! Reading and deleting single nodes.

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::DeleteParams;

use super::{KubeClient, KubeError};

impl KubeClient {
    /// Whether Kubernetes has a Node object with this name. Only this object is read: one step waits for each node of a new cluster,
    /// and lists of all nodes would make the work of these steps grow with the square of the number of nodes.
    pub async fn is_registered(&self, node: &str) -> Result<bool, KubeError> {
        let api: Api<Node> = Api::all(self.inner.clone());
        let found = self.ask(format!("read the node {node}"), api.get_opt(node)).await?;
        Ok(found.is_some())
    }

    /// Deletes a Node object. Has no effect if the object does not exist.
    pub async fn delete_node(&self, node: &str) -> Result<(), KubeError> {
        let api: Api<Node> = Api::all(self.inner.clone());
        let params = DeleteParams::default();
        match self.ask(format!("delete the node {node}"), api.delete(node, &params)).await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some(404) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
