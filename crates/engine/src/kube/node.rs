//! Deleting nodes.

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::DeleteParams;

use super::{KubeClient, KubeError};

impl KubeClient {
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
