//! Errors of the Kubernetes API, in the form of `Status` objects.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::auth::AccessRequest;
use super::kind::Kind;
use super::object;
use super::request::Target;

/// API error with a status code of 400 or above.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub code: u16,
    pub reason: &'static str,
    pub message: String,
    pub(crate) details: Map<String, Value>,
}

impl Failure {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Map::new() }
    }

    fn about(mut self, kind: &Kind, name: &str) -> Self {
        if !name.is_empty() {
            self.details.insert("name".to_owned(), name.into());
        }
        if !kind.group.is_empty() {
            self.details.insert("group".to_owned(), kind.group.as_str().into());
        }
        self.details.insert("kind".to_owned(), kind.plural.as_str().into());
        self
    }

    fn because(mut self, reason: &str, message: &str, field: &str) -> Self {
        let mut cause = json!({"reason": reason, "message": message});
        if !field.is_empty() {
            cause["field"] = field.into();
        }
        match self.details.get_mut("causes").and_then(Value::as_array_mut) {
            Some(causes) => causes.push(cause),
            None => drop(self.details.insert("causes".to_owned(), json!([cause]))),
        }
        self
    }

    pub(crate) fn not_found(kind: &Kind, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", kind.id)).about(kind, name)
    }

    /// 404 for a path without a resource.
    pub(crate) fn no_such_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    pub(crate) fn already_exists(kind: &Kind, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", kind.id);
        Self::new(409, "AlreadyExists", message).about(kind, name)
    }

    pub(crate) fn conflict(kind: &Kind, name: &str, cause: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {cause}", kind.id);
        Self::new(409, "Conflict", message).about(kind, name)
    }

    pub(crate) fn modified(kind: &Kind, name: &str) -> Self {
        Self::conflict(
            kind,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 409 of server-side apply. Each conflict has the other manager, in quotes, and the field.
    pub(crate) fn apply_conflict(conflicts: &[(String, String)]) -> Self {
        let message = match conflicts {
            [(manager, field)] => {
                format!("Apply failed with 1 conflict: conflict with {manager}: {field}")
            }
            several => {
                let mut by_manager: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
                for (manager, field) in several {
                    by_manager.entry(manager).or_default().push(field);
                }
                let texts = by_manager.iter().map(|(manager, fields)| {
                    format!("conflicts with {manager}:\n- {}", fields.join("\n- "))
                });
                let texts: Vec<String> = texts.collect();
                format!("Apply failed with {} conflicts: {}", several.len(), texts.join("\n"))
            }
        };
        conflicts.iter().fold(Self::new(409, "Conflict", message), |failure, (manager, field)| {
            failure.because("FieldManagerConflict", &format!("conflict with {manager}"), field)
        })
    }

    /// 422 with all validation errors, or `Ok` if there are none. Each error has its field and the text of the API server.
    pub(crate) fn unless_valid(
        kind: &Kind,
        name: &str,
        problems: &[(String, String)],
    ) -> Result<(), Self> {
        let (field, problem) = match problems {
            [] => return Ok(()),
            [(field, problem), ..] => (field, problem),
        };
        let mut failure = Self::invalid(kind, name, field, problem);
        if let [_, others @ ..] = problems
            && !others.is_empty()
        {
            let messages = problems.iter().map(|(field, problem)| format!("{field}: {problem}"));
            let messages: Vec<String> = messages.collect();
            failure.message =
                format!("{} \"{name}\" is invalid: [{}]", kind.qualified(), messages.join(", "));
            for (field, problem) in others {
                failure = failure.because(cause(problem), problem, field);
            }
        }
        Err(failure)
    }

    /// 422 about the options of a request.
    pub(crate) fn invalid_options(options: &str, field: &str, problem: &str) -> Self {
        let message = format!("{options}.meta.k8s.io \"\" is invalid: {field}: {problem}");
        Self::new(422, "Invalid", message).because("FieldValueInvalid", problem, field)
    }

    /// 422 about the replicas of a `Scale`.
    pub(crate) fn invalid_scale(name: &str, problem: &str) -> Self {
        let message = format!("Scale.autoscaling \"{name}\" is invalid: spec.replicas: {problem}");
        Self::new(422, "Invalid", message).because("FieldValueInvalid", problem, "spec.replicas")
    }

    /// 422 about a `TokenRequest`.
    pub(crate) fn invalid_token_request(field: &str, problem: &str) -> Self {
        let message =
            format!("TokenRequest.authentication.k8s.io \"\" is invalid: {field}: {problem}");
        Self::new(422, "Invalid", message).because("FieldValueInvalid", problem, field)
    }

    /// 422 about a patch with unknown or duplicate fields.
    pub(crate) fn strict_patch(patch: &str, problems: &str) -> Self {
        let problem =
            format!("Invalid value: {}: strict decoding error: {problems}", Value::from(patch));
        let message = format!(" \"\" is invalid: patch: {problem}");
        Self::new(422, "Invalid", message).because("FieldValueInvalid", &problem, "patch")
    }

    /// Error of server-side apply about a field that is not in the schema.
    pub(crate) fn not_in_schema(target: &Target, config: &Value, place: &str) -> Self {
        let (space, name) = (object::namespace(config), object::name(config));
        let Target { kind, version, .. } = target;
        Self::new(
            500,
            "",
            format!(
                "failed to create typed patch object ({space}/{name}; {}/{version}, Kind={}): {place}: field not declared in schema",
                kind.group, kind.name
            ),
        )
    }

    /// 422 for a patch that cannot be applied to the object. A real API server writes the cause only to its log.
    pub(crate) fn patch_failed() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(422, "Invalid", message)
    }

    /// 422 about one field. `problem` has the wording of the API server, such as `Required value`.
    pub(crate) fn invalid(kind: &Kind, name: &str, field: &str, problem: &str) -> Self {
        let message = format!("{} \"{name}\" is invalid: {field}: {problem}", kind.qualified());
        let mut failure = Self::new(422, "Invalid", message).about(kind, name);
        failure.details.insert("kind".to_owned(), kind.name.as_str().into());
        failure.because(cause(problem), problem, field)
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn forbidden(kind: &Kind, name: &str, cause: &str) -> Self {
        let quoted = if name.is_empty() { String::new() } else { format!(" \"{name}\"") };
        let message = format!("{}{quoted} is forbidden: {cause}", kind.id);
        Self::new(403, "Forbidden", message).about(kind, name)
    }

    /// 403 for a user that is not allowed to impersonate another user.
    pub(crate) fn forbidden_impersonation(user: &str, access: &AccessRequest<'_>) -> Self {
        let AccessRequest { group, resource, name, .. } = access;
        let resource = resource.split('/').next().unwrap_or_default();
        let dot = if group.is_empty() { "" } else { "." };
        let cause = access.rejection(user);
        let message = format!("{resource}{dot}{group} \"{name}\" is forbidden: {cause}");
        let mut failure = Self::new(403, "Forbidden", message);
        for (key, value) in [("name", *name), ("group", *group), ("kind", resource)] {
            if !value.is_empty() {
                failure.details.insert(key.to_owned(), value.into());
            }
        }
        failure
    }

    /// Error about impersonated groups or extras without an impersonated user.
    pub(crate) fn impersonation_without_user() -> Self {
        Self::new(500, "InternalError", "requested groups without impersonating a user")
    }

    pub(crate) fn forbidden_path(user: &str, verb: &str, path: &str) -> Self {
        let message = format!("forbidden: User \"{user}\" cannot {verb} path \"{path}\"");
        Self::new(403, "Forbidden", message)
    }

    /// 403 for the creation of an object in a terminating namespace.
    pub(crate) fn terminating(kind: &Kind, name: &str, namespace: &str) -> Self {
        let cause = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let text = format!("namespace {namespace} is being terminated");
        Self::forbidden(kind, name, &cause).because(
            "NamespaceTerminating",
            &text,
            "metadata.namespace",
        )
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message)
    }

    pub(crate) fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub(crate) fn too_large() -> Self {
        Self::new(413, "RequestEntityTooLarge", "limit is 3145728")
    }

    /// 410 for a revision that is no longer in the history.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// Error of a connection to a kubelet. Such a connection always fails, because the lab runs no containers.
    pub(crate) fn no_kubelet(message: String) -> Self {
        Self::new(500, "InternalError", message)
    }

    /// 500 with an error message of etcd.
    pub(crate) fn of_etcd(message: &str) -> Self {
        Self::new(500, "InternalError", message)
    }

    /// Error with the status code and message of an injected fault.
    pub(crate) fn of_fault(code: u16, message: &str) -> Self {
        let reason = match code {
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            409 => "Conflict",
            429 => "TooManyRequests",
            500 => "InternalError",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            _ => "",
        };
        Self::new(code, reason, message)
    }

    pub(crate) fn disruption_budget(budget: &str, healthy: u64, wanted: u64) -> Self {
        let cause = format!(
            "The disruption budget {budget} needs {wanted} healthy pods and has {healthy} currently"
        );
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        Self::new(429, "TooManyRequests", message).because("DisruptionBudget", &cause, "")
    }

    pub(crate) fn several_budgets() -> Self {
        let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        Self::new(500, "InternalError", message)
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if !self.details.is_empty() {
            status["details"] = Value::Object(self.details.clone());
        }
        status["code"] = self.code.into();
        status
    }
}

/// Reason of a validation error, such as `FieldValueRequired`, derived from the text of the error.
fn cause(problem: &str) -> &'static str {
    match problem {
        _ if problem.starts_with("Required") => "FieldValueRequired",
        _ if problem.starts_with("Forbidden") => "FieldValueForbidden",
        _ if problem.starts_with("Duplicate") => "FieldValueDuplicate",
        _ if problem.starts_with("Too long") => "FieldValueTooLong",
        _ if problem.starts_with("Too many") => "FieldValueTooMany",
        _ if problem.starts_with("Unsupported") => "FieldValueNotSupported",
        _ if problem.contains("in body must be of type") => "FieldValueTypeInvalid",
        _ => "FieldValueInvalid",
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
