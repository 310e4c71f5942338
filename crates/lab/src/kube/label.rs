//! Labels and annotations that the API server does not take.

use serde_json::{Map, Value};

use super::failure::Failure;
use super::kind::Kind;
use super::object;
use super::validate::is_subdomain;

const NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
/// All annotations of an object together.
const MOST: usize = 256 * 1024;

const POD_SECURITY: &str = "pod-security.kubernetes.io/";

/// Keys and values of an object's labels, and keys of its annotations.
pub(super) fn check(kind: &Kind, object: &Value) -> Result<(), Failure> {
    let name = object::name(object);
    let invalid = |field: &str, text: &str, rule: &str| {
        Err(Failure::invalid(kind, name, field, &format!("Invalid value: {text:?}: {rule}")))
    };
    for (key, value) in entries(object, "labels") {
        if let Some(rule) = key_problem(key) {
            return invalid("metadata.labels", key, &rule);
        }
        let value = value.as_str().unwrap_or_default();
        if let Some(rule) = value_problem(value) {
            return invalid("metadata.labels", value, rule);
        }
    }
    let mut size = 0;
    for (key, value) in entries(object, "annotations") {
        // Capitals are let through in the prefix too.
        if let Some(rule) = key_problem(&key.to_lowercase()) {
            return invalid("metadata.annotations", key, &rule);
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > MOST {
        let problem = format!("Too long: may not be more than {MOST} bytes");
        return Err(Failure::invalid(kind, name, "metadata.annotations", &problem));
    }
    Ok(())
}

/// The levels of PodSecurity that a namespace asks for, where they are not those that it had.
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

/// What is wrong with a key: a name, or one behind a domain.
fn key_problem(key: &str) -> Option<String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if name.contains('/') {
        return Some("a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')".to_owned());
    }
    match prefix {
        Some("") => return Some("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            if let Err(rule) = is_subdomain(prefix) {
                return Some(format!("prefix part {rule}"));
            }
        }
        None => {}
    }
    if name.is_empty() {
        return Some("name part must be non-empty".to_owned());
    }
    if name.len() > 63 {
        return Some("name part must be no more than 63 bytes".to_owned());
    }
    (!is_word(name)).then(|| NAME.to_owned())
}

fn value_problem(value: &str) -> Option<&'static str> {
    if value.len() > 63 {
        return Some("must be no more than 63 bytes");
    }
    (!value.is_empty() && !is_word(value)).then_some(VALUE)
}

fn is_word(text: &str) -> bool {
    let is_edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    is_edge(bytes.first())
        && is_edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}
