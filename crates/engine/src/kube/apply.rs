//! Server-side apply of manifests. talmox becomes the owner of the fields that the manifests contain, and of no other fields.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::core::response::StatusCause;
use kube::core::{DynamicObject, GroupVersionKind, Status};
use kube::discovery::{self, ApiCapabilities, ApiResource, Scope};
use kube::error::DiscoveryError;
use serde_json::Value;
use talmox_clock::{Wait, WaitError};
use talmox_plan::manifest::{DEFAULT_NAMESPACE, HookPhase, Manifest};

use super::{FIELD_MANAGER, KubeClient, KubeError};
use crate::timeouts::KIND_SCHEMA;

/// A field that another field manager owns and set to another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Path of the field, such as `.spec.replicas`.
    pub field: String,
    /// Text of the API, such as `conflict with "kubectl" using apps/v1`.
    pub with: String,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.field, self.with)
    }
}

/// Reason why manifests could not be applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("another field manager owns fields of {object}: {}", list(conflicts))]
    Conflict { object: String, conflicts: Vec<Conflict> },
    #[error("apply {object}")]
    Rejected { object: String, source: KubeError },
    /// A manifest needs a namespace or a kind that did not exist in time.
    #[error(transparent)]
    Missing(WaitError),
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// An applied object failed, and a retry does not help.
    #[error("{object} failed: {reason}")]
    Failed { object: String, reason: String },
}

fn list(conflicts: &[Conflict]) -> String {
    conflicts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Cache of the discovered kinds and their API resources, by API version and kind.
pub(super) type Kinds = BTreeMap<(String, String), (ApiResource, ApiCapabilities)>;

impl KubeClient {
    /// Applies all manifests in an order that satisfies their dependencies: namespaces, then CustomResourceDefinitions, then
    /// former hooks that come before the others, then the rest in the given order, then webhooks and API services. Waits
    /// until the definitions are established before it applies the rest. Retries errors that may pass. Former hooks that
    /// come after the others are applied by [`KubeClient::apply_hooks`].
    pub async fn apply(
        &self,
        manifests: &[Manifest],
        wait: &mut Wait<'_>,
    ) -> Result<(), ApplyError> {
        let mut kinds = Kinds::new();
        for turn in Turn::ALL {
            let due: Vec<&Manifest> =
                manifests.iter().filter(|manifest| Turn::of(manifest) == Some(turn)).collect();
            self.apply_all(&due, &mut kinds, wait).await?;
            if turn == Turn::Definition {
                self.await_established(&due, wait).await?;
                self.apply_hooks(manifests, HookPhase::Before, wait).await?;
            }
        }
        Ok(())
    }

    /// Applies the former hooks of a phase by weight. The Jobs of a weight must succeed before the next weight is applied.
    pub async fn apply_hooks(
        &self,
        manifests: &[Manifest],
        phase: HookPhase,
        wait: &mut Wait<'_>,
    ) -> Result<(), ApplyError> {
        let mut hooks: Vec<&Manifest> =
            manifests.iter().filter(|manifest| manifest.hook_phase() == Some(phase)).collect();
        hooks.sort_by_key(|hook| hook.hook_weight());
        let mut kinds = Kinds::new();
        for due in hooks.chunk_by(|one, other| one.hook_weight() == other.hook_weight()) {
            self.apply_all(due, &mut kinds, wait).await?;
            let due: Vec<Manifest> = due.iter().map(|hook| (*hook).clone()).collect();
            self.await_rollout(&due, wait).await?;
        }
        Ok(())
    }

    /// Applies manifests. A manifest whose namespace or kind does not exist yet is applied after the others, because another
    /// manifest or add-on may create the namespace or kind.
    async fn apply_all(
        &self,
        manifests: &[&Manifest],
        kinds: &mut Kinds,
        wait: &mut Wait<'_>,
    ) -> Result<(), ApplyError> {
        let mut left = manifests.to_vec();
        loop {
            let mut lacking = vec![];
            let mut reason = None;
            for manifest in left {
                if let Some(missing) = self.apply_one(manifest, kinds, wait).await? {
                    reason.get_or_insert(format!("{manifest}: {missing}"));
                    lacking.push(manifest);
                }
            }
            let Some(reason) = reason else { return Ok(()) };
            left = lacking;
            wait.not_yet(reason).await.map_err(ApplyError::Missing)?;
        }
    }

    /// Applies one manifest. If its namespace or kind is missing, returns that namespace or kind.
    async fn apply_one(
        &self,
        manifest: &Manifest,
        kinds: &mut Kinds,
        wait: &mut Wait<'_>,
    ) -> Result<Option<String>, ApplyError> {
        let mut schema = None;
        loop {
            let error = match self.try_apply(manifest, kinds).await {
                Ok(()) => return Ok(None),
                Err(error) => error,
            };
            if let Some(missing) = error.missing() {
                return Ok(Some(missing));
            }
            // The API server needs some time to load a changed CustomResourceDefinition.
            let may_fit = matches!(error, KubeError::Misfit { .. })
                && !manifest.is_built_in()
                && !schema.get_or_insert_with(|| wait.clock().deadline(KIND_SCHEMA)).has_passed();
            if !error.may_pass() && !may_fit {
                return Err(rejected(manifest, error));
            }
            wait.not_yet(format!("{manifest}: {}", error.reason())).await?;
        }
    }

    async fn try_apply(&self, manifest: &Manifest, kinds: &mut Kinds) -> Result<(), KubeError> {
        let api = self.api(manifest, kinds).await?;
        // Another add-on may contain the namespace with labels, which an apply without them would remove.
        if manifest.is_created_namespace()
            && self.ask(format!("read {manifest}"), api.get_opt(&manifest.name)).await?.is_some()
        {
            return Ok(());
        }
        let body = body(manifest, kinds);
        let patch = Patch::Apply(&*body);
        let params = PatchParams::apply(FIELD_MANAGER);
        let applied = api.patch(&manifest.name, &params, &patch);
        let applied = self.ask(format!("apply {manifest}"), applied).await;
        applied.map(|_| ()).map_err(|error| without_values(manifest, error))
    }

    /// The API client for objects of the kind of this manifest.
    pub(super) async fn api(
        &self,
        manifest: &Manifest,
        kinds: &mut Kinds,
    ) -> Result<Api<DynamicObject>, KubeError> {
        let key = (manifest.api_version.clone(), manifest.kind.clone());
        let found = match kinds.get(&key) {
            Some(found) => found.clone(),
            None => kinds.entry(key).or_insert(self.kind(manifest).await?).clone(),
        };
        Ok(self.api_of(manifest, &found))
    }

    fn api_of(
        &self,
        manifest: &Manifest,
        (resource, capabilities): &(ApiResource, ApiCapabilities),
    ) -> Api<DynamicObject> {
        if capabilities.scope == Scope::Cluster {
            return Api::all_with(self.inner.clone(), resource);
        }
        let namespace = manifest.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
        Api::namespaced_with(self.inner.clone(), namespace, resource)
    }

    async fn kind(&self, manifest: &Manifest) -> Result<(ApiResource, ApiCapabilities), KubeError> {
        let kind = GroupVersionKind::gvk(manifest.group(), manifest.version(), &manifest.kind);
        let operation = format!("apply {manifest}");
        let named = format!("{} {}", manifest.api_version, manifest.kind);
        let asked = async {
            match discovery::pinned_kind(&self.inner, &kind).await {
                // The API group exists in this version, but not the kind. Kubernetes defines all kinds of a built-in group,
                // so the error is final for such a group.
                Err(kube::Error::Discovery(DiscoveryError::MissingKind(_))) => {
                    Ok(Err(manifest.is_built_in()))
                }
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(Err(false)),
                other => other.map(Ok),
            }
        };
        self.ask(operation.clone(), asked).await?.map_err(|is_final| {
            if !is_final {
                return KubeError::UnknownKind { operation, kind: named };
            }
            let operation = format!("{operation} ({})", manifest.place);
            KubeError::NoSuchKind { operation, kind: named }
        })
    }

    async fn await_established(
        &self,
        definitions: &[&Manifest],
        wait: &mut Wait<'_>,
    ) -> Result<(), ApplyError> {
        for definition in definitions {
            loop {
                let reason = match self.read(definition).await {
                    Ok(Some(object)) if is_true(&object, "Established") => break,
                    Ok(_) => format!("{definition} is not established"),
                    Err(error) if error.may_pass() => error.reason(),
                    Err(error) => return Err(rejected(definition, error)),
                };
                wait.not_yet(reason).await?;
            }
        }
        Ok(())
    }

    /// The object in the cluster. None if it does not exist.
    pub(super) async fn read(&self, manifest: &Manifest) -> Result<Option<Value>, KubeError> {
        let found = self.kind(manifest).await?;
        let api = self.api_of(manifest, &found);
        let object = self.ask(format!("read {manifest}"), api.get_opt(&manifest.name)).await?;
        let unreadable = |source: serde_json::Error| KubeError::Unreadable {
            operation: format!("read {manifest}"),
            source: source.into(),
        };
        object.map(serde_json::to_value).transpose().map_err(unreadable)
    }
}

/// The object to send. If its kind has no namespaces, the namespace that the object got from its add-on is omitted, because
/// the API rejects it. The kind must be in `kinds`.
pub(super) fn body<'a>(manifest: &'a Manifest, kinds: &Kinds) -> Cow<'a, Value> {
    let key = (manifest.api_version.clone(), manifest.kind.clone());
    let has_no_namespace = kinds.get(&key).is_some_and(|(_, found)| found.scope == Scope::Cluster);
    if has_no_namespace && manifest.namespace.is_some() {
        return Cow::Owned(manifest.object_without_namespace());
    }
    Cow::Borrowed(&manifest.object)
}

/// Removes the message of an error about a Secret, because the message may quote values of the Secret. Messages about
/// conflicts and missing objects are kept, because they contain only names.
pub(super) fn without_values(manifest: &Manifest, error: KubeError) -> KubeError {
    match error {
        KubeError::Rejected { operation, mut status }
            if manifest.kind == "Secret" && !status.is_conflict() && status.code != 404 =>
        {
            status.message = format!("the API rejected it: {}", status.reason);
            status.details = None;
            KubeError::Rejected { operation, status }
        }
        other => other,
    }
}

/// Phase in which an object is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Namespace,
    Definition,
    Rest,
    /// Webhooks and API services. Once they exist, the API server sends requests to their workloads, so the workloads are
    /// applied before them.
    Gatekeeper,
}

impl Turn {
    const ALL: [Self; 4] = [Self::Namespace, Self::Definition, Self::Rest, Self::Gatekeeper];

    /// None for a former hook, which has its own order.
    fn of(manifest: &Manifest) -> Option<Self> {
        if manifest.hook_phase().is_some() {
            return None;
        }
        Some(match (manifest.group(), manifest.kind.as_str()) {
            ("", "Namespace") => Self::Namespace,
            ("apiextensions.k8s.io", "CustomResourceDefinition") => Self::Definition,
            (
                "admissionregistration.k8s.io",
                "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
            )
            | ("apiregistration.k8s.io", "APIService") => Self::Gatekeeper,
            _ => Self::Rest,
        })
    }
}

/// Converts an error that a retry does not change.
pub(super) fn rejected(manifest: &Manifest, error: KubeError) -> ApplyError {
    let object = manifest.to_string();
    match error {
        KubeError::Rejected { status, .. } if status.is_conflict() => {
            ApplyError::Conflict { object, conflicts: conflicts(&status) }
        }
        source => ApplyError::Rejected { object, source },
    }
}

fn conflicts(status: &Status) -> Vec<Conflict> {
    let causes = status.details.as_ref().map(|details| details.causes.as_slice());
    let conflict =
        |cause: &StatusCause| Conflict { field: cause.field.clone(), with: cause.message.clone() };
    let found: Vec<Conflict> = causes.unwrap_or_default().iter().map(conflict).collect();
    if found.is_empty() {
        return vec![Conflict { field: "it".to_owned(), with: status.message.clone() }];
    }
    found
}

/// Whether a condition of an object is met.
pub(super) fn is_true(object: &Value, kind: &str) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.map(Vec::as_slice).unwrap_or_default().iter();
    conditions.any(|condition| condition["type"] == kind && condition["status"] == "True")
}
