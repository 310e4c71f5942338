//! Server-side apply of plain manifests: talmox owns what they say, and nothing else.

use std::collections::BTreeMap;
use std::fmt;

use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::core::response::StatusCause;
use kube::core::{DynamicObject, GroupVersionKind, Status};
use kube::discovery::{self, ApiCapabilities, ApiResource, Scope};
use kube::error::DiscoveryError;
use serde_json::Value;
use talmox_plan::manifest::{DEFAULT_NAMESPACE, Manifest};

use super::{FIELD_MANAGER, KubeClient, KubeError};
use crate::patience::{Late, Patience, SCHEMA};

/// A field that somebody else set to another value and still looks after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// `.spec.replicas`.
    pub field: String,
    /// `conflict with "kubectl" using apps/v1`, as the API says it.
    pub with: String,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.field, self.with)
    }
}

/// Why manifests could not be applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("{object} is looked after by somebody else: {}", list(conflicts))]
    Conflict { object: String, conflicts: Vec<Conflict> },
    #[error("apply {object}")]
    Refused { object: String, source: KubeError },
    /// Something needs a namespace or a kind that nobody brought in time.
    #[error(transparent)]
    Missing(Late),
    #[error(transparent)]
    Late(#[from] Late),
    /// Something that was applied cannot come up any more.
    #[error("{object} failed: {reason}")]
    Failed { object: String, reason: String },
}

fn list(conflicts: &[Conflict]) -> String {
    conflicts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Kinds that were asked for, and how they are addressed.
pub(super) type Kinds = BTreeMap<(String, String), (ApiResource, ApiCapabilities)>;

impl KubeClient {
    /// Applies all of them, those first that others need: namespaces, then definitions of kinds,
    /// which are awaited, then the rest in their order, then what stands between the API and its
    /// clients. What may pass by itself is waited out.
    pub async fn apply(
        &self,
        manifests: &[Manifest],
        patience: Patience<'_>,
    ) -> Result<(), ApplyError> {
        let mut kinds = Kinds::new();
        for turn in Turn::ALL {
            let due: Vec<&Manifest> =
                manifests.iter().filter(|manifest| Turn::of(manifest) == turn).collect();
            self.apply_all(&due, &mut kinds, patience).await?;
            if turn == Turn::Definition {
                self.await_established(&due, patience).await?;
            }
        }
        Ok(())
    }

    /// Whose namespace or kind is not there yet lets the others go first: one of them may bring it,
    /// or another add-on does.
    async fn apply_all(
        &self,
        manifests: &[&Manifest],
        kinds: &mut Kinds,
        patience: Patience<'_>,
    ) -> Result<(), ApplyError> {
        let mut left = manifests.to_vec();
        let mut wait = patience.begin();
        loop {
            let mut lacking = vec![];
            let mut reason = None;
            for manifest in left {
                if let Some(missing) = self.apply_one(manifest, kinds, patience).await? {
                    reason.get_or_insert(format!("{manifest}: {missing}"));
                    lacking.push(manifest);
                }
            }
            let Some(reason) = reason else { return Ok(()) };
            left = lacking;
            wait.not_yet(reason).await.map_err(ApplyError::Missing)?;
        }
    }

    /// Says what is missing, if something is that it needs.
    async fn apply_one(
        &self,
        manifest: &Manifest,
        kinds: &mut Kinds,
        patience: Patience<'_>,
    ) -> Result<Option<String>, ApplyError> {
        let mut wait = patience.begin();
        let mut schema = None;
        loop {
            let error = match self.try_apply(manifest, kinds).await {
                Ok(()) => return Ok(None),
                Err(error) => error,
            };
            if let Some(missing) = error.missing() {
                return Ok(Some(missing));
            }
            // The API takes a while to learn what a changed definition says.
            let may_fit = matches!(error, KubeError::Misfit { .. })
                && !manifest.is_built_in()
                && !schema.get_or_insert_with(|| patience.clock.deadline(SCHEMA)).has_passed();
            if !error.may_pass() && !may_fit {
                return Err(refusal(manifest, error));
            }
            wait.not_yet(format!("{manifest}: {}", error.reason())).await?;
        }
    }

    async fn try_apply(&self, manifest: &Manifest, kinds: &mut Kinds) -> Result<(), KubeError> {
        let api = self.api(manifest, kinds).await?;
        let patch = Patch::Apply(&manifest.object);
        let params = PatchParams::apply(FIELD_MANAGER);
        let applied = api.patch(&manifest.name, &params, &patch);
        let applied = self.ask(format!("apply {manifest}"), applied).await;
        applied.map(|_| ()).map_err(|error| without_values(manifest, error))
    }

    /// Where objects like this one are.
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
                // The group is there in that version, and all that it has came with the API.
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
        patience: Patience<'_>,
    ) -> Result<(), ApplyError> {
        for definition in definitions {
            let mut wait = patience.begin();
            loop {
                let reason = match self.read(definition).await {
                    Ok(Some(object)) if is_true(&object, "Established") => break,
                    Ok(_) => format!("{definition} is not established"),
                    Err(error) if error.may_pass() => error.reason(),
                    Err(error) => return Err(refusal(definition, error)),
                };
                wait.not_yet(reason).await?;
            }
        }
        Ok(())
    }

    /// The object as it is now; nothing if it is not there.
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

/// What the API says about a Secret may quote it. Conflicts name fields only, and what is missing is
/// not the Secret.
pub(super) fn without_values(manifest: &Manifest, error: KubeError) -> KubeError {
    match error {
        KubeError::Refused { operation, mut status }
            if manifest.kind == "Secret" && !status.is_conflict() && status.code != 404 =>
        {
            status.message = format!("it was refused: {}", status.reason);
            status.details = None;
            KubeError::Refused { operation, status }
        }
        other => other,
    }
}

/// When an object has its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Namespace,
    Definition,
    Rest,
    /// Once there, these ask others about every request: others that must run first.
    Gatekeeper,
}

impl Turn {
    const ALL: [Self; 4] = [Self::Namespace, Self::Definition, Self::Rest, Self::Gatekeeper];

    fn of(manifest: &Manifest) -> Self {
        match (manifest.group(), manifest.kind.as_str()) {
            ("", "Namespace") => Self::Namespace,
            ("apiextensions.k8s.io", "CustomResourceDefinition") => Self::Definition,
            (
                "admissionregistration.k8s.io",
                "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
            )
            | ("apiregistration.k8s.io", "APIService") => Self::Gatekeeper,
            _ => Self::Rest,
        }
    }
}

/// An answer that stays what it is.
pub(super) fn refusal(manifest: &Manifest, error: KubeError) -> ApplyError {
    let object = manifest.to_string();
    match error {
        KubeError::Refused { status, .. } if status.is_conflict() => {
            ApplyError::Conflict { object, conflicts: conflicts(&status) }
        }
        source => ApplyError::Refused { object, source },
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
