//! Validation of labels and annotations.

use serde_json::{Map, Value};

use super::failure::Failure;
use super::kind::Kind;
use super::object;
use super::validate::subdomain_problems;

const NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
/// Maximum size of all annotations of an object.
const MAX_ANNOTATIONS: usize = 256 * 1024;

const POD_SECURITY: &str = "pod-security.kubernetes.io/";

/// Validates the labels of an object, the keys of its annotations, and the total size of its annotations. The error contains
/// all problems.
pub(super) fn check(kind: &Kind, object: &Value) -> Result<(), Failure> {
    let mut problems = vec![];
    let mut invalid = |field: &str, text: &str, rules: Vec<String>| {
        let messages = rules.into_iter().map(|rule| format!("Invalid value: {text:?}: {rule}"));
        problems.extend(messages.map(|problem| (field.to_owned(), problem)));
    };
    for (key, value) in entries(object, "labels") {
        invalid("metadata.labels", key, key_problems(key));
        let value = value.as_str().unwrap_or_default();
        let rules = value_problems(value).into_iter().map(str::to_owned).collect();
        invalid("metadata.labels", value, rules);
    }
    let mut size = 0;
    for (key, value) in entries(object, "annotations") {
        // The prefix of an annotation key may contain upper-case letters.
        invalid("metadata.annotations", key, key_problems(&key.to_lowercase()));
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > MAX_ANNOTATIONS {
        let problem = format!("Too long: may not be more than {MAX_ANNOTATIONS} bytes");
        problems.push(("metadata.annotations".to_owned(), problem));
    }
    Failure::unless_valid(kind, object::name(object), &problems)
}

/// Validates the PodSecurity labels of a new or changed namespace.
pub(super) fn check_pod_security(
    kind: &Kind,
    old: Option<&Value>,
    new: &Value,
) -> Result<(), Failure> {
    for (key, value) in entries(new, "labels") {
        let Some(mode) = key.strip_prefix(POD_SECURITY) else { continue };
        let value = value.as_str().unwrap_or_default();
        if old.and_then(|old| object::label(old, key)) == Some(value) {
            continue;
        }
        let problem = match mode {
            "enforce" | "audit" | "warn"
                if !["privileged", "baseline", "restricted"].contains(&value) =>
            {
                "must be one of privileged, baseline, restricted"
            }
            "enforce-version" | "audit-version" | "warn-version" if !is_version(value) => {
                "must be \"latest\" or \"v1.x\""
            }
            _ => continue,
        };
        let field = format!("metadata.labels[{key}]");
        let problem = format!("Invalid value: {value:?}: {problem}");
        return Err(Failure::invalid(kind, object::name(new), &field, &problem));
    }
    Ok(())
}

fn is_version(text: &str) -> bool {
    let minor = text.strip_prefix("v1.");
    text == "latest" || minor.is_some_and(|minor| minor == "0" || is_number(minor))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn entries<'o>(object: &'o Value, what: &str) -> impl Iterator<Item = (&'o String, &'o Value)> {
    object["metadata"][what].as_object().into_iter().flat_map(Map::iter)
}

/// Problems of a label key, which consists of an optional domain prefix and a name.
pub(super) fn key_problems(key: &str) -> Vec<String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if name.contains('/') {
        let rule = NAME.replace("name part", "a qualified name");
        return vec![format!(
            "{rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )];
    }
    let mut problems = match prefix {
        Some("") => vec!["prefix part must be non-empty".to_owned()],
        Some(prefix) => {
            let rules = subdomain_problems(prefix).into_iter();
            rules.map(|rule| format!("prefix part {rule}")).collect()
        }
        None => vec![],
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push("name part must be no more than 63 characters".to_owned());
    }
    if !is_word(name) {
        problems.push(NAME.to_owned());
    }
    problems
}

pub(super) fn value_problems(value: &str) -> Vec<&'static str> {
    let mut problems = vec![];
    if value.len() > 63 {
        problems.push("must be no more than 63 characters");
    }
    if !value.is_empty() && !is_word(value) {
        problems.push(VALUE);
    }
    problems
}

fn is_word(text: &str) -> bool {
    let is_edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    is_edge(bytes.first())
        && is_edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}
