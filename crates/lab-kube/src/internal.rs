//! Operations that the lab performs inside a cluster, with full rights.

use serde_json::Value;

use super::auth::User;
use super::controller::disruption;
use super::failure::Failure;
use super::object::{self, text};
use super::store::KubeStore;

impl KubeStore {
    /// Creates an object of any kind. The `apiVersion` and `kind` of the object select the kind. Returns false if the object
    /// existed.
    pub fn create_any(&self, mut object: Value) -> Result<bool, Failure> {
        self.with(|state| {
            let api_version = text(&object, "/apiVersion").to_owned();
            let (group, version) = api_version.rsplit_once('/').unwrap_or(("", &api_version));
            let wanted = text(&object, "/kind").to_owned();
            let kind = state.kinds.iter().find(|kind| {
                kind.group == group
                    && kind.name == wanted
                    && kind.versions.iter().any(|served| served == version)
            });
            let kind = kind.cloned().ok_or_else(|| {
                let text = format!("no matches for kind \"{wanted}\" in version \"{api_version}\"");
                Failure::bad_request(text)
            })?;
            if kind.namespaced && object::namespace(&object).is_empty() {
                object::metadata(&mut object).insert("namespace".to_owned(), "default".into());
            }
            let namespace = object::namespace(&object).to_owned();
            if state.get(&kind.id, &namespace, object::name(&object)).is_some() {
                return Ok(false);
            }
            state.create(&kind, &namespace, object).map(|_| true)
        })
    }

    /// Evicts a pod, unless a disruption budget forbids it.
    pub fn evict(&self, namespace: &str, pod: &str) -> Result<(), Failure> {
        self.with(|state| {
            if let Some(pod) = state.get("pods", namespace, pod).cloned() {
                disruption::check(state, &pod)?;
            }
            state.delete_inside("pods", namespace, pod)
        })
    }

    /// Whether the API server accepts this bootstrap token.
    pub fn accepts_token(&self, token: &str) -> bool {
        self.with(|state| User::of_token(state, token).is_some())
    }
}
