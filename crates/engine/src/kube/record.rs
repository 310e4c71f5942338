//! Record of the objects of each add-on, so that talmox finds them after the add-on was removed from the inventory. Every
//! object has a label, and a ConfigMap in the cluster lists the objects. Without the ConfigMap, talmox would have to search
//! all kinds of objects.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use talmox_plan::manifest::{LABEL, Manifest, slug};

use super::{FIELD_MANAGER, KubeClient, KubeError};

const NAMESPACE: &str = "kube-system";

/// The recorded objects of each add-on, by the name of the add-on. The manifests contain only API version, kind, namespace
/// and name.
pub type Noted = BTreeMap<String, Vec<Manifest>>;

impl KubeClient {
    /// The recorded objects, by the names of add-ons.
    pub async fn noted(&self) -> Result<Noted, KubeError> {
        let params = ListParams::default().labels(LABEL);
        let found = self.ask("list the records of add-ons", self.notes().list(&params)).await?;
        let read = |note: ConfigMap| {
            let mut data = note.data.unwrap_or_default();
            let objects = data.remove("objects").unwrap_or_default();
            Some((data.remove("addon")?, objects.lines().filter_map(object).collect()))
        };
        Ok(found.items.into_iter().filter_map(read).collect())
    }

    /// Records the objects that will be applied. Recorded objects of the add-on that still exist stay in the record.
    pub async fn note(&self, addon: &str, manifests: &[Manifest]) -> Result<(), KubeError> {
        let before = self.noted().await?.remove(addon).unwrap_or_default();
        let mut lines: Vec<String> = manifests.iter().map(line).collect();
        for old in self.left_over(addon, &before, manifests).await? {
            lines.push(line(&old));
        }
        let name = format!("talmox-addon-{}", slug(addon));
        let note = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": {LABEL: slug(addon)}},
            "data": {"addon": addon, "objects": lines.join("\n")},
        });
        // `force`, because no other field manager may own fields of this ConfigMap.
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let api = self.notes();
        let patch = Patch::Apply(&note);
        let noted = api.patch(&name, &params, &patch);
        self.ask(format!("record the add-on {addon}"), noted).await.map(|_| ())
    }

    /// The recorded objects of an add-on that are not in `manifests`, and that still exist with the label of the add-on.
    pub async fn left_over(
        &self,
        addon: &str,
        noted: &[Manifest],
        manifests: &[Manifest],
    ) -> Result<Vec<Manifest>, KubeError> {
        let mut left = vec![];
        for old in noted.iter().filter(|old| !manifests.iter().any(|one| one.is_same(old))) {
            let found = match self.read(old).await {
                Ok(found) => found.unwrap_or_default(),
                Err(KubeError::UnknownKind { .. } | KubeError::NoSuchKind { .. }) => continue,
                Err(error) => return Err(error),
            };
            if found["metadata"]["labels"][LABEL] == slug(addon) {
                left.push(old.clone());
            }
        }
        Ok(left)
    }

    fn notes(&self) -> Api<ConfigMap> {
        Api::namespaced(self.inner.clone(), NAMESPACE)
    }
}

fn line(manifest: &Manifest) -> String {
    let Manifest { api_version, kind, name, namespace, .. } = manifest;
    format!("{api_version} {kind} {} {name}", namespace.as_deref().unwrap_or("-"))
}

fn object(line: &str) -> Option<Manifest> {
    let mut words = line.split(' ');
    let (api_version, kind) = (words.next()?, words.next()?);
    let namespace = words.next().filter(|namespace| *namespace != "-");
    Some(Manifest::named(api_version, kind, namespace, words.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        for namespace in [None, Some("shop")] {
            let manifest = Manifest::named("apps/v1", "Deployment", namespace, "till");
            assert_eq!(object(&line(&manifest)), Some(manifest));
        }
        assert_eq!(object("v1 ConfigMap"), None);
    }
}
