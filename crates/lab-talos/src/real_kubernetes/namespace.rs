//! Deletion of a namespace. All objects of all kinds in the namespace are deleted first.

use serde_json::{Value, json};
use talmox_lab_kube::object::{list, name, text};

use super::synchronizer::Synchronizer;

impl Synchronizer {
    pub(super) async fn delete_namespace(&mut self, space: &Value) -> Result<(), String> {
        let how = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
        let mut is_empty = true;
        for (base, plural) in self.kinds_in_namespaces().await? {
            let all = format!("{base}/namespaces/{}/{plural}", name(space));
            if self.client.list(&all).await?.is_empty() {
                continue;
            }
            self.client.delete(&all, &how).await?;
            is_empty &= self.client.list(&all).await?.is_empty();
        }
        if is_empty {
            let mut last = space.clone();
            last["spec"]["finalizers"] = json!([]);
            let path = format!("/api/v1/namespaces/{}/finalize", name(space));
            self.client.replace(&path, &last).await?;
        }
        Ok(())
    }

    /// API paths and names of the namespaced kinds that support `list` and `deletecollection`. Only the preferred version of
    /// each group is used.
    async fn kinds_in_namespaces(&mut self) -> Result<Vec<(String, String)>, String> {
        let groups = self.client.get("/apis").await?.found()?;
        let preferred = list(&groups, "/groups")
            .iter()
            .map(|group| format!("/apis/{}", text(group, "/preferredVersion/groupVersion")));
        let bases: Vec<String> = std::iter::once("/api/v1".to_owned()).chain(preferred).collect();
        let mut kinds = vec![];
        for base in bases {
            let resources = self.client.get(&base).await?.found()?;
            for resource in list(&resources, "/resources") {
                let verbs = list(resource, "/verbs");
                let is_deleted = ["list", "deletecollection"]
                    .iter()
                    .all(|verb| verbs.iter().any(|known| known == verb));
                if resource["namespaced"] == true && is_deleted {
                    kinds.push((base.clone(), text(resource, "/name").to_owned()));
                }
            }
        }
        Ok(kinds)
    }
}
