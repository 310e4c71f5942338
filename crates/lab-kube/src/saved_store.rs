//! Serialized store of a cluster, for etcd snapshots and for saved labs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::object::{name, namespace, text};
use super::store::{KubeSettings, KubeStore, State};

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// All objects of a store, with the counters of the store.
#[derive(Debug, Serialize, Deserialize)]
pub struct SavedStore {
    revision: u64,
    made: u64,
    /// Saved objects by the id of their kind.
    objects: BTreeMap<String, Vec<Value>>,
    /// Names of the nodes with an installed CNI plugin.
    with_network: BTreeSet<String>,
}

impl SavedStore {
    /// Revision of the newest change in the saved store.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Content of etcd: for each object, the revision of its last change, its key and its value.
    pub fn keys(&self) -> Vec<(u64, String, Vec<u8>)> {
        let all = self.objects.iter().flat_map(|(id, all)| all.iter().map(move |one| (id, one)));
        all.map(|(id, object)| {
            let revision = text(object, "/metadata/resourceVersion").parse().unwrap_or_default();
            let parts = ["/registry", &folder(id), namespace(object), name(object)];
            let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            (revision, parts.join("/"), object.to_string().into_bytes())
        })
        .collect()
    }
}

/// Path below `/registry` in etcd for the objects of a kind.
fn folder(id: &str) -> String {
    let (plural, group) = id.split_once('.').unwrap_or((id, ""));
    let is_built_in = group.is_empty() || !group.contains('.') || group.ends_with(".k8s.io");
    match (plural, group) {
        ("nodes", "") => "minions".to_owned(),
        ("services", "") => "services/specs".to_owned(),
        ("endpoints", "") => "services/endpoints".to_owned(),
        (_, "apiextensions.k8s.io" | "apiregistration.k8s.io") => format!("{group}/{plural}"),
        _ if is_built_in => plural.to_owned(),
        _ => format!("{group}/{plural}"),
    }
}

impl KubeStore {
    pub fn save(&self) -> SavedStore {
        self.with(|state| SavedStore {
            revision: state.revision,
            made: state.made(),
            objects: state
                .everything()
                .into_iter()
                .map(|(id, all)| (id, all.iter().map(|object| Value::clone(object)).collect()))
                .collect(),
            with_network: state.machines.with_network(),
        })
    }

    /// Creates a store from saved objects. No kubelet runs at first, so nodes become unreachable until their kubelets start.
    pub fn restore(settings: KubeSettings, saved: SavedStore) -> Arc<Self> {
        let store = Self::empty(settings);
        store.with(|state| fill(state, saved));
        store
    }
}

fn fill(state: &mut State, mut saved: SavedStore) {
    let definitions = saved.objects.remove(DEFINITIONS).unwrap_or_default();
    for definition in definitions {
        super::custom::register_kind(state, &definition);
        state.restore_object(DEFINITIONS, Arc::new(definition));
    }
    for (id, objects) in saved.objects {
        for object in objects {
            if id == "nodes" {
                let has_network = saved.with_network.contains(name(&object));
                state.machines.add_silent(name(&object), state.now, has_network);
            }
            state.restore_object(&id, Arc::new(object));
        }
    }
    // The new revision forces clients with an earlier watch to list the objects again.
    state.resume_from(saved.revision + 1, saved.made);
}
