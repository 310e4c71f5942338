//! Changes that applying manifests would make, found with a dry run of the API.

use kube::api::{Patch, PatchParams};
use serde_json::Value;
use talmox_plan::manifest::Manifest;
use talmox_plan::observed::{ObjectChange, RejectedObject};
use talmox_talos_config::leaf::is_secret_name;

use super::apply::{Kinds, body, without_values};
use super::rejection::rejection_of;
use super::rollout::problem_of;
use super::{FIELD_MANAGER, KubeClient, KubeError};

/// Maximum number of changed fields of an object that are shown.
const NAMED: usize = 3;

/// Metadata fields that the API server maintains.
const BOOKKEEPING: [&str; 3] = ["generation", "managedFields", "resourceVersion"];

/// Result that applying manifests would have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// The objects that would change, and those that the API would reject.
    pub changes: Vec<ObjectChange>,
    /// The objects that the API would reject.
    pub refusals: Vec<RejectedObject>,
}

/// State of a comparison.
struct Comparing {
    kinds: Kinds,
    /// Whether new objects get a dry run too. False after a dry run failed in a way that takes long, for example because a
    /// webhook did not answer.
    tries_new: bool,
}

/// Result that applying one manifest would have.
enum ApplyOutcome {
    Nothing,
    Changes(String),
    Rejected(RejectedObject),
}

impl KubeClient {
    /// The objects that are missing, differ, do not run, or would be rejected. Fields that are not in the manifests are
    /// ignored.
    pub async fn compare(&self, manifests: &[Manifest]) -> Result<Comparison, KubeError> {
        let mut comparing = Comparing { kinds: Kinds::new(), tries_new: true };
        let mut comparison = Comparison::default();
        for manifest in manifests {
            let what = match self.outcome(manifest, &mut comparing).await? {
                ApplyOutcome::Nothing => continue,
                ApplyOutcome::Changes(what) => what,
                ApplyOutcome::Rejected(refusal) => {
                    comparison.refusals.push(refusal);
                    "would be rejected".to_owned()
                }
            };
            comparison.changes.push(ObjectChange { object: manifest.to_string(), what });
        }
        Ok(comparison)
    }

    async fn outcome(
        &self,
        manifest: &Manifest,
        comparing: &mut Comparing,
    ) -> Result<ApplyOutcome, KubeError> {
        let is_new = || Ok(ApplyOutcome::Changes("is new".to_owned()));
        let api = match self.api(manifest, &mut comparing.kinds).await {
            Ok(api) => api,
            Err(KubeError::UnknownKind { .. }) => return is_new(),
            Err(error) => return Err(error),
        };
        let found = self.ask(format!("read {manifest}"), api.get_opt(&manifest.name)).await?;
        if found.is_none() && !comparing.tries_new {
            return is_new();
        }
        if found.is_some() && manifest.is_created_namespace() {
            return Ok(ApplyOutcome::Nothing);
        }
        let params = PatchParams::apply(FIELD_MANAGER).dry_run();
        let body = body(manifest, &comparing.kinds);
        let patch = Patch::Apply(&*body);
        let tried = api.patch(&manifest.name, &params, &patch);
        let tried = self.ask(format!("try {manifest}"), tried).await;
        let tried = tried.map_err(|error| without_values(manifest, error));
        let (found, applied) = match (found, tried) {
            (Some(found), Ok(applied)) => (found, applied),
            (None, Ok(_)) => return is_new(),
            (None, Err(error)) => {
                // The new object may need another object that is applied before it, so only a final rejection counts now.
                let refusal = rejection_of(manifest, &error).filter(|refusal| refusal.is_final);
                comparing.tries_new = !error.may_pass();
                return refusal.map_or_else(is_new, |refusal| Ok(ApplyOutcome::Rejected(refusal)));
            }
            (Some(_), Err(KubeError::Rejected { status, .. })) if status.is_conflict() => {
                return Ok(ApplyOutcome::Changes(
                    "is changed by another field manager too".to_owned(),
                ));
            }
            (Some(_), Err(error)) => {
                return rejection_of(manifest, &error).map(ApplyOutcome::Rejected).ok_or(error);
            }
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
            fields.iter().map(|field| field.described(&manifest.object)).collect();
        fields.sort_unstable();
        if !fields.is_empty() {
            return Ok(ApplyOutcome::Changes(format!("changes {}", named(&fields))));
        }
        let problem = problem_of(manifest, &found);
        Ok(problem.map_or(ApplyOutcome::Nothing, |why| {
            ApplyOutcome::Changes(format!("does not run: {why}"))
        }))
    }
}

fn named(fields: &[String]) -> String {
    let shown = fields[..fields.len().min(NAMED)].join(", ");
    match fields.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// A field whose value would change.
#[derive(Debug)]
struct Differing<'a> {
    path: String,
    old: &'a Value,
    new: &'a Value,
}

impl Differing<'_> {
    /// The path, and both values if they cannot be secret: numbers, booleans and images in objects of built-in kinds
    /// other than `Secret`, `ConfigMap` and `ControllerRevision`.
    fn described(&self, manifest: &Value) -> String {
        let Self { path, old, new } = self;
        let text = |key: &str| manifest.get(key).and_then(Value::as_str).unwrap_or_default();
        let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
        let is_known = !group.contains('.') || group.ends_with(".k8s.io");
        let is_open = is_known
            && !matches!(text("kind"), "ConfigMap" | "ControllerRevision" | "Secret")
            && !is_secret_name(path);
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

/// The fields whose values would change.
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
    fn only_values_that_cannot_be_secret_are_shown() {
        let old = json!({"spec": {"replicas": 1, "paused": true, "image": "a:1", "pin": 1, "token": 5, "dbPass": 7, "bypass": 1,
            "name": "hunter1", "env": [{"value": 3}]}});
        let new = json!({"spec": {"replicas": 2, "image": "a:2", "pin": 2, "token": 6, "dbPass": 8, "bypass": 2,
            "name": "hunter2", "env": [{"value": 4}]}});
        let fields_of = |version: &str, kind: &str| -> Vec<String> {
            let manifest = json!({"apiVersion": version, "kind": kind});
            let mut fields = vec![];
            differing(&old, &new, "", &mut fields);
            let mut fields: Vec<String> =
                fields.iter().map(|field| field.described(&manifest)).collect();
            fields.sort_unstable();
            fields
        };
        let expected = [
            "spec.bypass 1 → 2",
            "spec.dbPass",
            "spec.env[0].value",
            "spec.image a:1 → a:2",
            "spec.name",
            "spec.paused true → none",
            "spec.pin 1 → 2",
            "spec.replicas 1 → 2",
            "spec.token",
        ];
        assert_eq!(fields_of("apps/v1", "Deployment"), expected);
        for (version, kind) in [("v1", "Secret"), ("v1", "ConfigMap"), ("a.example/v1", "Door")] {
            let fields = fields_of(version, kind);
            assert!(fields.iter().all(|field| !field.contains(' ')), "{kind}: {fields:?}");
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
