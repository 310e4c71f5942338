//! Parser of Kubernetes manifests. It reads YAML with one or more documents, in the same way as kubectl.

use std::fmt;

use serde_json::{Map, Number, Value};
use talmox_yaml::{Entry, Node, ReadError, Resolved, Scalar, Style};

/// The namespace of objects whose manifests do not set one.
pub const DEFAULT_NAMESPACE: &str = "default";

/// Namespaces that every cluster has.
pub const ALWAYS_THERE: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Prefixes of the API groups below `k8s.io` whose kinds are all built into the API server.
const BUILT_IN: [&str; 12] = [
    "admissionregistration",
    "apiextensions",
    "authentication",
    "authorization",
    "certificates",
    "coordination",
    "discovery",
    "events",
    "networking",
    "rbac.authorization",
    "scheduling",
    "storage",
];

/// An object to apply. The object may be a Secret, so `Debug` does not show its content.
#[derive(Clone, PartialEq, Eq)]
pub struct Manifest {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    /// Namespace of the object. None if the manifest does not set a namespace.
    pub namespace: Option<String>,
    /// Source of the manifest for messages, such as `shop.yaml, document 2`.
    pub place: String,
    pub object: Value,
}

/// Why a text is not a manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    #[error("{file} is not YAML")]
    Yaml { file: String, source: ReadError },
    #[error("{file}, document {document}: {what}")]
    NoObject { file: String, document: usize, what: &'static str },
}

/// All objects in a text with manifests, in the order of the text. `file` is only used in messages.
pub fn read_manifests(file: &str, text: &str) -> Result<Vec<Manifest>, ManifestError> {
    let documents = talmox_yaml::read(text);
    let documents =
        documents.map_err(|source| ManifestError::Yaml { file: file.to_owned(), source })?;
    let mut manifests = vec![];
    for (at, document) in documents.iter().enumerate() {
        let problem =
            |what| ManifestError::NoObject { file: file.to_owned(), document: at + 1, what };
        let place = format!("{file}, document {}", at + 1);
        add(&to_json(document), &place, &mut manifests).map_err(problem)?;
    }
    Ok(manifests)
}

fn add(object: &Value, place: &str, manifests: &mut Vec<Manifest>) -> Result<(), &'static str> {
    if object.is_null() {
        return Ok(());
    }
    let text = |path: &str| {
        let found = object.pointer(path).and_then(Value::as_str);
        found.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    if !object.is_object() {
        return Err("it is not a mapping");
    }
    let api_version = text("/apiVersion").ok_or("it has no `apiVersion`")?;
    let kind = text("/kind").ok_or("it has no `kind`")?;
    if let (Some(of), Some(items)) = (kind.strip_suffix("List"), object["items"].as_array()) {
        return items
            .iter()
            .try_for_each(|item| add(&typed(item, &api_version, of), place, manifests));
    }
    let name = text("/metadata/name").ok_or("it has no `metadata.name`")?;
    let namespace = text("/metadata/namespace");
    let (place, object) = (place.to_owned(), object.clone());
    manifests.push(Manifest { api_version, kind, name, namespace, place, object });
    Ok(())
}

/// An item of a list. If the item has no `apiVersion` or `kind`, it gets those of the list.
fn typed(item: &Value, api_version: &str, kind: &str) -> Value {
    let mut item = item.clone();
    if let Some(fields) = item.as_object_mut().filter(|_| !kind.is_empty()) {
        fields.entry("apiVersion").or_insert_with(|| api_version.into());
        fields.entry("kind").or_insert_with(|| kind.into());
    }
    item
}

impl Manifest {
    /// A manifest that only identifies an object, without its content.
    pub fn named(api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Self {
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            namespace: namespace.map(str::to_owned),
            place: String::new(),
            object: Value::Null,
        }
    }

    /// Whether both manifests describe the same object, possibly in different API versions.
    pub fn is_same(&self, other: &Self) -> bool {
        let place = |one: &Self| one.namespace.clone().unwrap_or(DEFAULT_NAMESPACE.to_owned());
        (self.group(), &self.kind, &self.name) == (other.group(), &other.kind, &other.name)
            && place(self) == place(other)
    }

    pub fn is_namespace(&self) -> bool {
        (self.group(), self.kind.as_str()) == ("", "Namespace")
    }

    /// Whether the API group of the manifest is built into Kubernetes. A CustomResourceDefinition cannot add kinds to
    /// such a group.
    pub fn is_built_in(&self) -> bool {
        let group = self.group();
        let own = group.strip_suffix(".k8s.io");
        !group.contains('.') || own.is_some_and(|own| BUILT_IN.contains(&own))
    }

    /// The part of `apiVersion` before the slash. Empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    pub fn version(&self) -> &str {
        self.api_version.split_once('/').map_or(self.api_version.as_str(), |(_, version)| version)
    }
}

impl fmt::Display for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

impl fmt::Debug for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Manifest({} {self})", self.api_version)
    }
}

fn to_json(node: &Node) -> Value {
    match &node.value {
        talmox_yaml::Value::Seq(list) => list.items.iter().map(to_json).collect(),
        talmox_yaml::Value::Map(map) => {
            let entry = |entry: &Entry| (key(&entry.key), to_json(&entry.value));
            Value::Object(map.entries.iter().map(entry).collect::<Map<_, _>>())
        }
        talmox_yaml::Value::Scalar(scalar) => scalar_to_json(scalar),
    }
}

/// Key of a mapping as text. JSON allows only strings as keys, so other values are written as JSON text.
fn key(node: &Node) -> String {
    match to_json(node) {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

fn scalar_to_json(scalar: &Scalar) -> Value {
    if let Some(flag) = old_flag(scalar) {
        return flag.into();
    }
    match scalar.resolve() {
        Resolved::Null => Value::Null,
        Resolved::Bool(flag) => flag.into(),
        Resolved::Int(number) => match (i64::try_from(number), u64::try_from(number)) {
            (Ok(number), _) => number.into(),
            (_, Ok(number)) => number.into(),
            _ => scalar.text.as_str().into(),
        },
        Resolved::Float(number) => Number::from_f64(number).map_or(Value::Null, Value::Number),
        Resolved::Text => scalar.text.as_str().into(),
    }
}

/// The boolean value of words such as `yes` and `off`. kubectl reads YAML 1.1, in which these words are booleans. Talos reads
/// them as text.
fn old_flag(scalar: &Scalar) -> Option<bool> {
    if scalar.style != Style::Plain {
        return None;
    }
    match scalar.text.as_str() {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_and_lists_give_objects() {
        let text = "---\n# nothing\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\n\
            apiVersion: v1\nkind: List\nitems:\n\
            - {apiVersion: apps/v1, kind: Deployment, metadata: {name: b, namespace: a}}\n\
            - {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}\n\
            ---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBindingList\nitems:\n\
            - {metadata: {name: d}}\n- {apiVersion: v1, kind: Secret, metadata: {name: e}}\n";
        let found = read_manifests("x.yaml", text).unwrap();
        let names: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            names,
            ["Namespace a", "Deployment a/b", "ConfigMap c", "RoleBinding d", "Secret e"]
        );
        assert_eq!((found[1].group(), found[1].version()), ("apps", "v1"));
        assert_eq!((found[2].group(), found[2].version()), ("", "v1"));
        assert_eq!(found[3].object["apiVersion"], "rbac.authorization.k8s.io/v1");
    }

    #[test]
    fn only_groups_of_kubernetes_itself_are_closed() {
        for (api_version, is_closed) in [
            ("v1", true),
            ("batch/v1", true),
            ("rbac.authorization.k8s.io/v1", true),
            ("gateway.networking.k8s.io/v1", false),
            ("snapshot.storage.k8s.io/v1", false),
            ("shop.example/v1", false),
        ] {
            let text = format!("{{apiVersion: {api_version}, kind: K, metadata: {{name: a}}}}");
            let found = read_manifests("x.yaml", &text).unwrap();
            assert_eq!(found[0].is_built_in(), is_closed, "{api_version}");
        }
    }

    #[test]
    fn values_mean_what_they_mean_to_kubectl() {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  a: on\n  b: \"on\"\n  \
            c: 0644\n  d: 1.5\n  8080: x\n  e: v1.2\n";
        let found = read_manifests("x.yaml", text).unwrap();
        let data = &found[0].object["data"];
        assert_eq!(
            data.to_string(),
            r#"{"a":true,"b":"on","c":420,"d":1.5,"8080":"x","e":"v1.2"}"#
        );
    }

    #[test]
    fn a_document_that_is_not_an_object_is_an_error_with_its_position() {
        let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\nkind: Pod\n";
        let error = read_manifests("x.yaml", text).unwrap_err();
        assert_eq!(error.to_string(), "x.yaml, document 2: it has no `apiVersion`");
        let generated = "apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n";
        let error = read_manifests("x.yaml", generated).unwrap_err();
        assert_eq!(error.to_string(), "x.yaml, document 1: it has no `metadata.name`");
        assert!(matches!(read_manifests("x.yaml", "a: ["), Err(ManifestError::Yaml { .. })));
    }

    #[test]
    fn the_content_of_an_object_is_not_shown() {
        let text = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {p: hunter2}\n";
        let found = read_manifests("x.yaml", text).unwrap();
        assert_eq!(format!("{:?}", found[0]), "Manifest(v1 Secret s)");
    }
}
