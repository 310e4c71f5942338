//! Whether the API server of a control plane runs with the settings of its config.

use std::collections::BTreeMap;

use talmox_plan::plan::TalosNode;
use talmox_talos_api::client::{Resource, ResourceKind};
use talmox_talos_api::{Client, Code, TalosError};
use talmox_yaml::Node;

use super::unanswered;
use crate::kube::KubeClient;

/// Name of the static pod of the API server.
const API_SERVER: &str = "kube-apiserver";

/// Start of the annotations with the versions of the settings that Talos made a static pod from.
const VERSIONS: &str = "talos.dev/";

/// Reason why the API server of a control plane is not ready with the settings of its config. None if it is ready.
///
/// After a changed config, the kubelet replaces the pod of the API server some seconds later. Until then the former pod is
/// still listed as ready. So the versions of the settings are compared.
pub(super) async fn obstacle(
    client: &Client,
    kube: &KubeClient,
    node: &TalosNode,
) -> Option<String> {
    let desired = match client.get(ResourceKind::STATIC_POD, API_SERVER).await {
        Ok(Some(pod)) => versions(&pod),
        Ok(None) => return Some("waiting for Talos to define its API server".to_owned()),
        // The role of the client may not allow reading static pods.
        Err(TalosError::No { code: Code::PermissionDenied, .. }) => return None,
        Err(error) => return Some(unanswered(&error)),
    };
    let reason = match kube.mirror_pod(API_SERVER, &node.name).await {
        Ok(None) => "waiting for its API server to start".to_owned(),
        Ok(Some(pod)) => {
            let is_current =
                desired.iter().all(|(key, value)| pod.annotations.get(key) == Some(value));
            if !is_current {
                "waiting for its API server to restart with the changed config".to_owned()
            } else if !pod.is_ready {
                "waiting for its API server to be ready".to_owned()
            } else {
                return None;
            }
        }
        Err(error) => error.progress(),
    };
    Some(reason)
}

/// The versions of the settings of a static pod.
fn versions(pod: &Resource) -> BTreeMap<String, String> {
    let Some(tree) = pod.tree() else { return BTreeMap::new() };
    let annotations = ["metadata", "annotations"]
        .into_iter()
        .try_fold(&tree, |node, key| node.as_map().and_then(|map| map.get(key)));
    let entries = annotations.and_then(Node::as_map).into_iter().flat_map(|map| &map.entries);
    let versions = entries.filter_map(|entry| {
        let key = entry.key.as_str().filter(|key| key.starts_with(VERSIONS))?;
        Some((key.to_owned(), entry.value.as_str()?.to_owned()))
    });
    versions.collect()
}
