//! Validation of objects. It finds common mistakes; objects with other mistakes are accepted.

use serde_json::Value;

use super::failure::Failure;
use super::kind::Kind;
use super::label;
use super::object::{self, list, text, type_name};
use super::schema;
use super::selector::Selector;

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

const SERVICE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

pub(super) fn name(kind: &Kind, name: &str) -> Result<(), Failure> {
    let invalid = |problem: &str| Err(Failure::invalid(kind, name, "metadata.name", problem));
    if name.is_empty() {
        return invalid("Required value: name or generateName is required");
    }
    if kind.group == "rbac.authorization.k8s.io" {
        return match name {
            "." | ".." => invalid(&format!("Invalid value: \"{name}\": may not be '{name}'")),
            _ if name.contains(['/', '%']) => {
                invalid(&format!("Invalid value: \"{name}\": may not contain '/' or '%'"))
            }
            _ => Ok(()),
        };
    }
    let problems = match kind.id.as_str() {
        "namespaces" => label_problems(name),
        "services" => service_problems(name),
        _ => subdomain_problems(name),
    };
    let messages = problems
        .into_iter()
        .map(|rule| ("metadata.name".to_owned(), format!("Invalid value: {name:?}: {rule}")));
    Failure::unless_valid(kind, name, &messages.collect::<Vec<_>>())
}

/// Rules for DNS subdomain names that the text violates.
pub(super) fn subdomain_problems(text: &str) -> Vec<&'static str> {
    let mut problems = vec![];
    if text.len() > 253 {
        problems.push("must be no more than 253 characters");
    }
    if !is_subdomain(text) {
        problems.push(SUBDOMAIN);
    }
    problems
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn label_problems(text: &str) -> Vec<&'static str> {
    let mut problems = too_long(text);
    if !is_label(text) {
        problems.push(if is_subdomain(text) { "must not contain dots" } else { LABEL });
    }
    problems
}

fn service_problems(text: &str) -> Vec<&'static str> {
    let mut problems = too_long(text);
    if !is_label(text) || !text.starts_with(|first: char| first.is_ascii_lowercase()) {
        problems.push(SERVICE);
    }
    problems
}

fn too_long(text: &str) -> Vec<&'static str> {
    if text.len() > 63 { vec!["must be no more than 63 characters"] } else { vec![] }
}

fn is_label(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(is_inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Rejects objects in which a required mapping has another type.
pub(super) fn shape(kind: &Kind, object: &Value) -> Result<(), Failure> {
    if !object.is_object() {
        return Err(Failure::bad_request("the body of the request is not an object"));
    }
    check_metadata(kind, object)?;
    let everywhere = ["status"];
    let built_in = [
        "spec",
        "spec.selector",
        "spec.strategy",
        "spec.updateStrategy",
        "spec.template",
        "spec.template.metadata",
        "spec.template.metadata.labels",
        "spec.template.metadata.annotations",
        "spec.template.spec",
        "data",
    ];
    let built_in = if kind.custom.is_none() { &built_in[..] } else { &[] };
    for field in everywhere.iter().chain(built_in) {
        let found = object.pointer(&format!("/{}", field.replace('.', "/")));
        let Some(found) = found.filter(|found| !found.is_null() && !found.is_object()) else {
            continue;
        };
        let of = if *field == "data" { " of type map[string]string" } else { "" };
        return Err(type_mismatch(kind, found, &format!("{}.{field}{of}", kind.name)));
    }
    Ok(())
}

/// Validates the types of the metadata fields.
fn check_metadata(kind: &Kind, object: &Value) -> Result<(), Failure> {
    let metadata = &object["metadata"];
    if !metadata.is_null() && !metadata.is_object() {
        return Err(type_mismatch(
            kind,
            metadata,
            &format!("{}.metadata of type v1.ObjectMeta", kind.name),
        ));
    }
    let of = |key: &str, kind: &str| format!("ObjectMeta.metadata.{key} of type {kind}");
    for key in ["name", "namespace", "generateName"] {
        let found = &metadata[key];
        if !found.is_null() && !found.is_string() {
            return Err(type_mismatch(kind, found, &of(key, "string")));
        }
    }
    for key in ["labels", "annotations"] {
        let found = &metadata[key];
        if !found.is_null() && !found.is_object() {
            return Err(type_mismatch(kind, found, &of(key, "map[string]string")));
        }
        let mut values = found.as_object().into_iter().flat_map(|map| map.values());
        if let Some(value) = values.find(|value| !value.is_null() && !value.is_string()) {
            return Err(type_mismatch(kind, value, &of(key, "string")));
        }
    }
    let finalizers = &metadata["finalizers"];
    if !finalizers.is_null() && !finalizers.is_array() {
        return Err(type_mismatch(kind, finalizers, &of("finalizers", "[]string")));
    }
    Ok(())
}

/// Error about a value of the wrong type.
fn type_mismatch(kind: &Kind, found: &Value, place: &str) -> Failure {
    let what = type_name(found);
    let (name, version) = (&kind.name, &kind.versions[0]);
    Failure::bad_request(format!(
        "{name} in version \"{version}\" cannot be handled as a {name}: json: cannot unmarshal {what} into Go struct field {place}"
    ))
}

pub(super) fn object(kind: &Kind, object: &Value) -> Result<(), Failure> {
    label::check(kind, object)?;
    let name = object::name(object);
    let invalid = |field: &str, problem: &str| Err(Failure::invalid(kind, name, field, problem));
    match kind.id.as_str() {
        "pods" => containers(kind, name, object, "/spec", "spec"),
        "deployments.apps" | "replicasets.apps" | "daemonsets.apps" | "statefulsets.apps" => {
            if let Some(problem) = negative(&object["spec"]["replicas"]) {
                return invalid("spec.replicas", &problem);
            }
            containers(kind, name, object, "/spec/template/spec", "spec.template.spec")?;
            let selector = Selector::of_object(&object["spec"]["selector"]);
            if selector.is_empty() {
                return invalid("spec.selector", "Required value");
            }
            if !selector.matches(&object["spec"]["template"]) {
                let labels = &object["spec"]["template"]["metadata"]["labels"];
                let problem =
                    format!("Invalid value: {labels}: `selector` does not match template `labels`");
                return invalid("spec.template.metadata.labels", &problem);
            }
            Ok(())
        }
        "jobs.batch" => containers(kind, name, object, "/spec/template/spec", "spec.template.spec"),
        "customresourcedefinitions.apiextensions.k8s.io" => {
            let (plural, group) = (text(object, "/spec/names/plural"), text(object, "/spec/group"));
            if name != format!("{plural}.{group}") {
                let problem = format!(
                    "Invalid value: \"{name}\": must be spec.names.plural+\".\"+spec.group"
                );
                return invalid("metadata.name", &problem);
            }
            let stored = |version: &&Value| object::flag(version, "/storage");
            if list(object, "/spec/versions").iter().filter(stored).count() != 1 {
                let problem =
                    "Invalid value: must have exactly one version marked as storage version";
                return invalid("spec.versions", problem);
            }
            Ok(())
        }
        _ if kind.custom.is_some() => schema::check(kind, object),
        _ => Ok(()),
    }
}

/// Error message if the number is negative; `None` otherwise.
pub(super) fn negative(count: &Value) -> Option<String> {
    let count = count.as_i64().filter(|count| *count < 0)?;
    Some(format!("Invalid value: {count}: must be greater than or equal to 0"))
}

fn containers(
    kind: &Kind,
    name: &str,
    object: &Value,
    pointer: &str,
    path: &str,
) -> Result<(), Failure> {
    let containers = list(object, &format!("{pointer}/containers"));
    if containers.is_empty() {
        return Err(Failure::invalid(kind, name, &format!("{path}.containers"), "Required value"));
    }
    for (at, container) in containers.iter().enumerate() {
        for key in ["name", "image"] {
            if text(container, &format!("/{key}")).is_empty() {
                let field = format!("{path}.containers[{at}].{key}");
                return Err(Failure::invalid(kind, name, &field, "Required value"));
            }
        }
    }
    Ok(())
}

/// Rejects changes of immutable fields.
pub(super) fn change(kind: &Kind, old: &Value, new: &Value) -> Result<(), Failure> {
    let name = object::name(old);
    let is_workload = kind.group == "apps" && kind.status;
    if is_workload && old["spec"]["selector"] != new["spec"]["selector"] {
        let problem = format!("Invalid value: {}: field is immutable", new["spec"]["selector"]);
        return Err(Failure::invalid(kind, name, "spec.selector", &problem));
    }
    if kind.id == "pods" && fixed_part(old) != fixed_part(new) {
        let problem = "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
        return Err(Failure::invalid(kind, name, "spec", problem));
    }
    let is_frozen = matches!(kind.id.as_str(), "configmaps" | "secrets")
        && object::flag(old, "/immutable")
        && (old.get("data") != new.get("data") || !object::flag(new, "/immutable"));
    if is_frozen {
        let problem = "Forbidden: field is immutable when `immutable` is set";
        return Err(Failure::invalid(kind, name, "data", problem));
    }
    Ok(())
}

/// Spec of a pod without the fields that may change.
fn fixed_part(pod: &Value) -> Value {
    let mut spec = pod["spec"].clone();
    if let Some(spec) = spec.as_object_mut() {
        for key in ["activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"] {
            spec.shift_remove(key);
        }
        for key in ["containers", "initContainers"] {
            let all = spec.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten();
            for container in all.filter_map(Value::as_object_mut) {
                container.shift_remove("image");
            }
        }
    }
    spec
}
