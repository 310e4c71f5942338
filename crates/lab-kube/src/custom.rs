//! CustomResourceDefinitions: registration and removal of the kinds that they define.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::kind::{Kind, ScalePaths};
use super::object::{self, list, text};
use super::printer::CustomColumn;
use super::store::State;

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Kind that a CustomResourceDefinition defines.
fn kind_of(definition: &Value) -> Option<Kind> {
    let spec = definition.get("spec")?;
    let (group, plural, kind) =
        (text(spec, "/group"), text(spec, "/names/plural"), text(spec, "/names/kind"));
    let mut served: Vec<&Value> = list(spec, "/versions").iter().collect();
    served.retain(|version| object::flag(version, "/served"));
    served.sort_by_key(|version| !object::flag(version, "/storage"));
    if group.is_empty() || plural.is_empty() || kind.is_empty() || served.is_empty() {
        return None;
    }
    let has = |subresource: &str| {
        served.iter().any(|version| version["subresources"].get(subresource).is_some())
    };
    let texts = |pointer: &str| {
        let all = list(spec, pointer).iter().filter_map(Value::as_str);
        all.map(str::to_owned).collect()
    };
    let singular = match text(spec, "/names/singular") {
        "" => kind.to_lowercase(),
        given => given.to_owned(),
    };
    let columns: BTreeMap<String, Vec<CustomColumn>> = served
        .iter()
        .map(|version| {
            let columns = list(version, "/additionalPrinterColumns");
            (text(version, "/name").to_owned(), columns.iter().map(CustomColumn::read).collect())
        })
        .collect();
    let schemas = served.iter().filter_map(|version| {
        let schema = version.pointer("/schema/openAPIV3Schema")?;
        Some((text(version, "/name").to_owned(), schema.clone()))
    });
    let schemas = schemas.collect();
    Some(Kind {
        id: Kind::id(group, plural),
        group: group.to_owned(),
        versions: served.iter().map(|version| text(version, "/name").to_owned()).collect(),
        name: kind.to_owned(),
        plural: plural.to_owned(),
        singular,
        short: texts("/names/shortNames"),
        categories: texts("/names/categories"),
        namespaced: text(spec, "/scope") == "Namespaced",
        status: has("status"),
        scale: served.iter().find_map(|version| scale_paths(version)),
        custom: Some(columns),
        schemas,
    })
}

/// Paths of the `scale` subresource. The notation `.spec.replicas` is converted to JSON pointers.
fn scale_paths(version: &Value) -> Option<ScalePaths> {
    let scale = version.pointer("/subresources/scale")?;
    let path = |field: &str| scale[field].as_str().map(|path| path.replace('.', "/"));
    Some(ScalePaths {
        wanted: path("specReplicasPath")?,
        current: path("statusReplicasPath")?,
        selector: path("labelSelectorPath"),
    })
}

/// Registers the kind of a created or changed CustomResourceDefinition, and marks the definition as established. Returns the
/// stored object.
pub(super) fn after_write(state: &mut State, kind: &Kind, written: Arc<Value>) -> Arc<Value> {
    if kind.id != DEFINITIONS {
        return written;
    }
    let Some(made) = kind_of(&written) else { return written };
    let now = state.timestamp();
    let mut definition = Value::clone(&written);
    let stored = text(&definition, "/status/storedVersions/0").is_empty();
    let status = object::entry(&mut definition, "status");
    status.insert("acceptedNames".to_owned(), written["spec"]["names"].clone());
    if stored {
        status.insert("storedVersions".to_owned(), json!([made.versions[0]]));
    }
    let conditions = [
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ];
    for (kind, reason, message) in conditions {
        object::set_condition(&mut definition, &now, kind, "True", reason, message);
    }
    state.kinds.insert(made);
    if definition == *written { written } else { state.put(DEFINITIONS, definition) }
}

/// Registers the kind of a CustomResourceDefinition of a saved cluster.
pub(super) fn register_kind(state: &mut State, definition: &Value) {
    if let Some(kind) = kind_of(definition) {
        state.kinds.insert(kind);
    }
}

/// Removes the kind of a deleted CustomResourceDefinition, and all objects of that kind.
pub(super) fn after_removal(state: &mut State, kind: &Kind, gone: &Value) {
    if kind.id != DEFINITIONS {
        return;
    }
    let id = Kind::id(text(gone, "/spec/group"), text(gone, "/spec/names/plural"));
    for left in state.all(&id) {
        state.take(&id, object::namespace(&left), object::name(&left));
    }
    state.drop_kind_store(&id);
}
