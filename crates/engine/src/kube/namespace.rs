//! Existing namespaces.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::ListParams;
use talmox_plan::manifest::ALWAYS_THERE;

use super::{KubeClient, KubeError};

impl KubeClient {
    /// The namespaces of `desired` that exist.
    pub async fn existing_namespaces(
        &self,
        mut desired: BTreeSet<String>,
    ) -> Result<BTreeSet<String>, KubeError> {
        if desired.iter().all(|name| ALWAYS_THERE.contains(&name.as_str())) {
            return Ok(desired);
        }
        let api: Api<Namespace> = Api::all(self.inner.clone());
        let list = self.ask("list namespaces", api.list(&ListParams::default())).await?;
        let found: BTreeSet<String> =
            list.items.into_iter().filter_map(|one| one.metadata.name).collect();
        desired.retain(|name| found.contains(name));
        Ok(desired)
    }
}
