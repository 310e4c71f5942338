//! Versions of resources. A version increases if the resource differs from the one at the previous request.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::{Definition, Item, ResourceContext};

/// Resources and versions of all nodes at the previous request.
#[derive(Debug, Default)]
pub(crate) struct ResourceVersions(Mutex<HashMap<u32, NodeVersions>>);

#[derive(Debug, Default)]
struct NodeVersions {
    boot: u64,
    resources: BTreeMap<(&'static str, String), VersionedResource>,
}

/// Resource with its version.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct VersionedResource {
    pub(crate) item: Item,
    pub(crate) version: u64,
    pub(crate) created: Duration,
    pub(crate) updated: Duration,
}

impl ResourceVersions {
    /// All current resources of a type with their versions.
    pub(crate) fn list(
        &self,
        context: &ResourceContext<'_>,
        kind: &'static Definition,
    ) -> Vec<VersionedResource> {
        let items = kind.list(context);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(context.node.vmid).or_default();
        if known.boot != context.node.boot {
            *known = NodeVersions { boot: context.node.boot, resources: BTreeMap::new() };
        }
        let found: Vec<VersionedResource> = items
            .into_iter()
            .map(|item| {
                let key = (kind.name, item.id.clone());
                let found = known.resources.entry(key).or_insert_with(|| VersionedResource {
                    item: item.clone(),
                    version: item.version.unwrap_or(1),
                    created: context.now,
                    updated: context.now,
                });
                if found.item != item {
                    found.version = item.version.unwrap_or(found.version + 1);
                    found.item = item;
                    found.updated = context.now;
                }
                found.clone()
            })
            .collect();
        // A resource that disappears and comes back counts as a new resource.
        known.resources.retain(|(name, id), _| {
            *name != kind.name || found.iter().any(|found| found.item.id == *id)
        });
        found
    }
}
