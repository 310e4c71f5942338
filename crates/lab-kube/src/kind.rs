//! Kinds of objects: built-in kinds, and kinds of CustomResourceDefinitions.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::builtin;
use super::printer::CustomColumn;

/// Kind of objects, with the parts of its API paths.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kind {
    /// Resource name in messages and key in the store, such as `pods` or `deployments.apps`.
    pub(crate) id: String,
    pub(crate) group: String,
    /// All served versions. Objects are stored in the first version.
    pub(crate) versions: Vec<String>,
    /// Kind name, such as `Deployment`.
    pub(crate) name: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    pub(crate) status: bool,
    pub(crate) scale: Option<ScalePaths>,
    /// Printer columns of a CustomResourceDefinition by version; `None` for built-in kinds.
    pub(crate) custom: Option<BTreeMap<String, Vec<CustomColumn>>>,
    /// Schemas of a CustomResourceDefinition by version.
    pub(crate) schemas: BTreeMap<String, Value>,
}

/// JSON pointers to the fields that the `scale` subresource shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) wanted: String,
    pub(crate) current: String,
    /// Pointer to a selector in text form; `None` if the `scale` subresource shows `spec.selector` or no selector.
    pub(crate) selector: Option<String>,
}

impl ScalePaths {
    pub(crate) fn built_in() -> Self {
        Self {
            wanted: "/spec/replicas".to_owned(),
            current: "/status/replicas".to_owned(),
            selector: None,
        }
    }
}

impl Kind {
    pub(crate) fn id(group: &str, plural: &str) -> String {
        if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
    }

    pub(crate) fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.group) }
    }

    /// Kind name with its group, such as `Deployment.apps`, for messages about invalid objects.
    pub(crate) fn qualified(&self) -> String {
        Self::id(&self.group, &self.name)
    }

    /// Whether `metadata.generation` is incremented with each change of the spec.
    pub(crate) fn counts_generations(&self) -> bool {
        let counted = ["apps", "batch", "policy", "networking.k8s.io", "apiextensions.k8s.io"];
        self.custom.is_some() || counted.contains(&self.group.as_str()) || self.id == "pods"
    }

    /// Whether the kind supports `deletecollection`.
    pub(crate) fn supports_delete_collection(&self) -> bool {
        self.id != "namespaces"
    }
}

/// All kinds that a cluster serves.
#[derive(Debug)]
pub(crate) struct Kinds(BTreeMap<String, Arc<Kind>>);

impl Default for Kinds {
    fn default() -> Self {
        let all = builtin::kinds().map(|kind| (kind.id.clone(), Arc::new(kind)));
        Self(all.collect())
    }
}

impl Kinds {
    pub(crate) fn get(&self, id: &str) -> Option<&Arc<Kind>> {
        self.0.get(id)
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        let kind = self.0.get(&Kind::id(group, plural))?;
        kind.versions.iter().any(|served| served == version).then_some(kind)
    }

    pub(crate) fn insert(&mut self, kind: Kind) {
        self.0.insert(kind.id.clone(), Arc::new(kind));
    }

    pub(crate) fn remove(&mut self, id: &str) {
        self.0.remove(id);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.0.values()
    }

    /// API groups except the core group. Each has its versions, starting with the preferred one.
    pub(crate) fn groups(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for kind in self.iter().filter(|kind| !kind.group.is_empty()) {
            let versions = groups.entry(&kind.group).or_default();
            for version in &kind.versions {
                if !versions.contains(&version.as_str()) {
                    versions.push(version);
                }
            }
        }
        groups
    }
}
