//! What kinds of objects there are: the built-in ones, and those that definitions add.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::builtin;
use super::printer::CustomColumn;

/// A kind of objects, and where the API has them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kind {
    /// `pods`, or `deployments.apps`: what it is called in messages, and its key in the store.
    pub(crate) id: String,
    pub(crate) group: String,
    /// All versions it is served in; objects rest in the first.
    pub(crate) versions: Vec<String>,
    /// `Deployment`.
    pub(crate) name: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    pub(crate) status: bool,
    pub(crate) scale: Option<ScalePaths>,
    /// What a definition wants to be shown, per version; none for built-in kinds.
    pub(crate) custom: Option<BTreeMap<String, Vec<CustomColumn>>>,
    /// What the objects of a definition look like, per version.
    pub(crate) schemas: BTreeMap<String, Value>,
}

/// Where objects have what their `scale` shows, as JSON pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) wanted: String,
    pub(crate) current: String,
    /// A selector as text; none where there is a proper one in the spec, or none at all.
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

    /// `Deployment.apps`, as messages about invalid objects say it.
    pub(crate) fn qualified(&self) -> String {
        Self::id(&self.group, &self.name)
    }

    /// Whether `metadata.generation` counts what was wanted of its objects.
    pub(crate) fn counts_generations(&self) -> bool {
        let counted = ["apps", "batch", "policy", "networking.k8s.io", "apiextensions.k8s.io"];
        self.custom.is_some() || counted.contains(&self.group.as_str()) || self.id == "pods"
    }

    /// Whether many of its objects can be deleted by one request.
    pub(crate) fn goes_by_the_list(&self) -> bool {
        self.id != "namespaces"
    }
}

/// All kinds of one cluster.
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

    /// Groups other than the core one, with their versions, the preferred one first.
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
