//! Versions of resources: they grow when what is seen differs from what was seen before.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::{Definition, Item, View};

/// What was seen of all nodes.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<HashMap<u32, OfNode>>);

#[derive(Debug, Default)]
struct OfNode {
    boot: u64,
    resources: BTreeMap<(&'static str, String), Found>,
}

/// A resource with its version.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) item: Item,
    pub(crate) version: u64,
    pub(crate) created: Duration,
    pub(crate) updated: Duration,
}

impl Seen {
    /// All resources of a kind, as they are now.
    pub(crate) fn list(&self, view: &View<'_>, kind: &'static Definition) -> Vec<Found> {
        let items = kind.list(view);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(view.node.vmid).or_default();
        if known.boot != view.node.boot {
            *known = OfNode { boot: view.node.boot, resources: BTreeMap::new() };
        }
        let found: Vec<Found> = items
            .into_iter()
            .map(|item| {
                let key = (kind.name, item.id.clone());
                let found = known.resources.entry(key).or_insert_with(|| Found {
                    item: item.clone(),
                    version: item.version.unwrap_or(1),
                    created: view.now,
                    updated: view.now,
                });
                if found.item != item {
                    found.version = item.version.unwrap_or(found.version + 1);
                    found.item = item;
                    found.updated = view.now;
                }
                found.clone()
            })
            .collect();
        // What is gone and comes back is another one.
        known.resources.retain(|(name, id), _| {
            *name != kind.name || found.iter().any(|found| found.item.id == *id)
        });
        found
    }
}
