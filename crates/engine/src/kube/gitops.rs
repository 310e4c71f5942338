//! Objects that a GitOps tool manages.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use talmox_plan::manifest::Manifest;

use super::apply::Kinds;
use super::{KubeClient, KubeError};

/// Labels and annotations by which GitOps tools recognise their objects.
const MARKS: [(&str, &str); 4] = [
    ("argocd.argoproj.io/instance", "Argo CD"),
    ("argocd.argoproj.io/tracking-id", "Argo CD"),
    ("helm.toolkit.fluxcd.io/name", "Flux"),
    ("kustomize.toolkit.fluxcd.io/name", "Flux"),
];

impl KubeClient {
    /// The GitOps tool that manages one of the objects in the cluster. None if no known tool manages any of them.
    pub async fn gitops_tool(
        &self,
        manifests: &[Manifest],
    ) -> Result<Option<&'static str>, KubeError> {
        let mut kinds = Kinds::new();
        for manifest in manifests {
            let api = match self.api(manifest, &mut kinds).await {
                Ok(api) => api,
                Err(KubeError::UnknownKind { .. } | KubeError::NoSuchKind { .. }) => continue,
                Err(error) => return Err(error),
            };
            let found = self.ask(format!("read {manifest}"), api.get_opt(&manifest.name)).await?;
            let tool = found.and_then(|found| tool_of(&found.metadata));
            if tool.is_some() {
                return Ok(tool);
            }
        }
        Ok(None)
    }
}

fn tool_of(metadata: &ObjectMeta) -> Option<&'static str> {
    let has = |key: &str| {
        let maps = [&metadata.labels, &metadata.annotations];
        maps.into_iter().flatten().any(|map| map.contains_key(key))
    };
    MARKS.iter().find(|(key, _)| has(key)).map(|(_, tool)| *tool)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_tool_is_known_by_its_labels_and_annotations() {
        let map = |key: &str| Some(BTreeMap::from([(key.to_owned(), "shop".to_owned())]));
        let labelled = |key: &str| ObjectMeta { labels: map(key), ..ObjectMeta::default() };
        assert_eq!(tool_of(&labelled("kustomize.toolkit.fluxcd.io/name")), Some("Flux"));
        assert_eq!(tool_of(&labelled("app")), None);
        let annotations = map("argocd.argoproj.io/tracking-id");
        let annotated = ObjectMeta { annotations, ..ObjectMeta::default() };
        assert_eq!(tool_of(&annotated), Some("Argo CD"));
    }
}
