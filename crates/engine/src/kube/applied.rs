//! What applying manifests would change: the API is asked to apply them, and to keep nothing of it.

use kube::api::{Patch, PatchParams};
use serde_json::Value;

use super::apply::Kinds;
use super::manifest::Manifest;
use super::rollout::trouble_of;
use super::{FIELD_MANAGER, KubeClient, KubeError};

/// How many fields of an object are named.
const NAMED: usize = 3;

/// What the API counts and notes by itself, whatever is said.
const BOOKKEEPING: [&str; 3] = ["generation", "managedFields", "resourceVersion"];

/// Parts of the paths of what may be a secret.
const TELLING: [&str; 9] =
    ["auth", "credential", "data", "env", "key", "pass", "pwd", "secret", "token"];

/// An object that is not as its manifest says. Fields are named; of their values only those are told that
/// cannot be a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectChange {
    /// `Deployment shop/till`.
    pub object: String,
    /// Such as `changes spec.replicas 1 → 2`.
    pub what: String,
}

impl KubeClient {
    /// The objects that are missing, say something else, or do not run. What others added does not
    /// matter.
    pub async fn changes(&self, manifests: &[Manifest]) -> Result<Vec<ObjectChange>, KubeError> {
        let mut kinds = Kinds::new();
        let mut changes = vec![];
        for manifest in manifests {
            if let Some(what) = self.change(manifest, &mut kinds).await? {
                changes.push(ObjectChange { object: manifest.to_string(), what });
            }
        }
        Ok(changes)
    }

    async fn change(
        &self,
        manifest: &Manifest,
        kinds: &mut Kinds,
    ) -> Result<Option<String>, KubeError> {
        let is_new = || Ok(Some("is new".to_owned()));
        let api = match self.api(manifest, kinds).await {
            Ok(api) => api,
            Err(KubeError::UnknownKind { .. }) => return is_new(),
            Err(error) => return Err(error),
        };
        let read = self.ask(format!("read {manifest}"), api.get_opt(&manifest.name)).await?;
        let Some(found) = read else { return is_new() };
        let params = PatchParams::apply(FIELD_MANAGER).dry_run();
        let patch = Patch::Apply(&manifest.object);
        let tried = api.patch(&manifest.name, &params, &patch);
        let applied = match self.ask(format!("try {manifest}"), tried).await {
            Ok(applied) => applied,
            Err(KubeError::Refused { status, .. }) if status.is_conflict() => {
                return Ok(Some("is changed by somebody else too".to_owned()));
            }
            Err(error) => return Err(error),
        };
        let unreadable = |source: serde_json::Error| KubeError::Unreadable {
            operation: format!("read {manifest}"),
            source: source.into(),
        };
        let found = serde_json::to_value(found).map_err(unreadable)?;
        let applied = serde_json::to_value(applied).map_err(unreadable)?;
        let mut fields = vec![];
        differing(&found, &applied, "", &mut fields);
        let mut fields: Vec<String> =
            fields.iter().map(|field| field.told(&manifest.object)).collect();
        fields.sort_unstable();
        if !fields.is_empty() {
            return Ok(Some(format!("changes {}", named(&fields))));
        }
        Ok(trouble_of(manifest, &found).map(|why| format!("does not run: {why}")))
    }
}

fn named(fields: &[String]) -> String {
    let shown = fields[..fields.len().min(NAMED)].join(", ");
    match fields.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// What differs.
#[derive(Debug)]
struct Differing<'a> {
    path: String,
    old: &'a Value,
    new: &'a Value,
}

impl Differing<'_> {
    /// The path, and the values if they are numbers, switches or images of objects that Kubernetes itself knows.
    fn told(&self, manifest: &Value) -> String {
        let Self { path, old, new } = self;
        let text = |key: &str| manifest.get(key).and_then(Value::as_str).unwrap_or_default();
        let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
        let is_known = !group.contains('.') || group.ends_with(".k8s.io");
        let lower = path.to_lowercase();
        let is_open = is_known
            && !matches!(text("kind"), "ConfigMap" | "Secret")
            && !TELLING.iter().any(|word| lower.contains(word));
        let shown = |value: &Value| match value {
            Value::Null => Some("none".to_owned()),
            Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
            Value::String(text) if path.rsplit('.').next() == Some("image") => Some(text.clone()),
            Value::String(_) | Value::Array(_) | Value::Object(_) => None,
        };
        match (shown(old), shown(new)) {
            (Some(old), Some(new)) if is_open => format!("{path} {old} → {new}"),
            _ => path.clone(),
        }
    }
}

/// What differs, as deep as both sides go.
fn differing<'a>(
    found: &'a Value,
    applied: &'a Value,
    path: &str,
    fields: &mut Vec<Differing<'a>>,
) {
    match (found, applied) {
        (Value::Object(old), Value::Object(new)) => {
            let added = new.keys().filter(|key| !old.contains_key(*key));
            for key in old.keys().chain(added) {
                if path == "metadata" && BOOKKEEPING.contains(&key.as_str()) {
                    continue;
                }
                let dot = if path.is_empty() { "" } else { "." };
                let value = |side: &'a serde_json::Map<String, Value>| {
                    side.get(key).unwrap_or(&Value::Null)
                };
                differing(value(old), value(new), &format!("{path}{dot}{key}"), fields);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                differing(old, new, &format!("{path}[{index}]"), fields);
            }
        }
        (old, new) if old == new => {}
        (old, new) => fields.push(Differing { path: path.to_owned(), old, new }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(found: &Value, applied: &Value) -> Vec<String> {
        let mut fields = vec![];
        differing(found, applied, "", &mut fields);
        fields.into_iter().map(|field| field.path).collect()
    }

    #[test]
    fn only_values_that_cannot_be_secret_are_told() {
        let old = json!({"spec": {"replicas": 1, "paused": true, "image": "a:1", "pin": 1, "token": 5,
            "name": "hunter1", "env": [{"value": 3}]}});
        let new = json!({"spec": {"replicas": 2, "image": "a:2", "pin": 2, "token": 6,
            "name": "hunter2", "env": [{"value": 4}]}});
        let told = |version: &str, kind: &str| -> Vec<String> {
            let manifest = json!({"apiVersion": version, "kind": kind});
            let mut fields = vec![];
            differing(&old, &new, "", &mut fields);
            let mut told: Vec<String> = fields.iter().map(|field| field.told(&manifest)).collect();
            told.sort_unstable();
            told
        };
        let expected = [
            "spec.env[0].value",
            "spec.image a:1 → a:2",
            "spec.name",
            "spec.paused true → none",
            "spec.pin 1 → 2",
            "spec.replicas 1 → 2",
            "spec.token",
        ];
        assert_eq!(told("apps/v1", "Deployment"), expected);
        for (version, kind) in [("v1", "Secret"), ("v1", "ConfigMap"), ("a.example/v1", "Door")] {
            let told = told(version, kind);
            assert!(told.iter().all(|field| !field.contains(' ')), "{kind}: {told:?}");
        }
    }

    #[test]
    fn fields_are_named_and_bookkeeping_is_not() {
        let found = json!({"metadata": {"name": "a", "generation": 1, "labels": {"a": "b"}},
            "spec": {"ports": [{"port": 1}], "replicas": 1}});
        let applied = json!({"metadata": {"name": "a", "generation": 2},
            "spec": {"ports": [{"port": 2}], "replicas": 1, "paused": true}});
        let expected = ["metadata.labels", "spec.ports[0].port", "spec.paused"];
        assert_eq!(fields(&found, &applied), expected);
        assert_eq!(fields(&found, &found), Vec::<String>::new());
    }

    #[test]
    fn many_fields_are_counted() {
        let fields = ["a", "b", "c", "d", "e"].map(str::to_owned);
        assert_eq!(named(&fields), "a, b, c and 2 more");
        assert_eq!(named(&fields[..2]), "a, b");
    }
}
