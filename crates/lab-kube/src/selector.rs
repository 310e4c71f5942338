//! Label and field selectors, as query parameters and as parts of objects.

use std::fmt;

use serde_json::Value;

use super::kind::Kind;
use super::object;
use super::requirement::{self, Operator, Requirement};

/// Label and field selector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<(String, bool, String)>,
}

impl Selector {
    pub(crate) fn parse(labels: &str, fields: &str) -> Result<Self, String> {
        let labels = requirement::parse(labels)?;
        let fields = terms(fields).into_iter().map(|part| {
            // The first operator in the text is used. If several operators start at the same position, the longest one is used.
            let at = part.find(['!', '=']).filter(|at| part[*at..].contains('='));
            let split = at.and_then(|at| {
                let operators = [("!=", false), ("==", true), ("=", true)];
                let here = operators.iter().find(|(text, _)| part[at..].starts_with(text));
                here.map(|(text, equal)| (&part[..at], *equal, &part[at + text.len()..]))
            });
            let Some((key, equal, value)) = split else {
                return Err(format!("invalid selector: '{fields}'; can't understand '{part}'"));
            };
            Ok((key.to_owned(), equal, unescaped(value)?))
        });
        // A term without key and value selects every object.
        let fields = fields.filter(
            |found| !matches!(found, Ok((key, true, value)) if key.is_empty() && value.is_empty()),
        );
        Ok(Self { labels, fields: fields.collect::<Result<_, _>>()? })
    }

    /// Selector from the `spec.selector` of a workload, with `matchLabels` and `matchExpressions`.
    pub(crate) fn of_object(selector: &Value) -> Self {
        let equal = selector["matchLabels"].as_object().into_iter().flatten();
        let mut labels: Vec<Requirement> =
            equal.map(|(key, value)| equal_to(key, value.as_str().unwrap_or_default())).collect();
        labels.extend(object::list(selector, "/matchExpressions").iter().map(expression));
        Self { labels, fields: vec![] }
    }

    /// Selector from a mapping of labels, as in services and node selectors.
    pub(crate) fn of_labels(labels: &Value) -> Self {
        let equal = labels.as_object().into_iter().flatten();
        let labels = equal.map(|(key, value)| equal_to(key, value.as_str().unwrap_or_default()));
        Self { labels: labels.collect(), fields: vec![] }
    }

    /// Selector from one term of a node selector: expressions about labels and about `metadata.name`.
    pub(crate) fn of_node_term(term: &Value) -> Self {
        let labels = object::list(term, "/matchExpressions").iter().map(expression).collect();
        let fields = object::list(term, "/matchFields").iter().map(|field| {
            let value = object::text(field, "/values/0").to_owned();
            (object::text(field, "/key").to_owned(), field["operator"] != "NotIn", value)
        });
        Self { labels, fields: fields.collect() }
    }

    /// Rejects a field selector if the kind does not support selection by that field.
    pub(crate) fn check_fields(&self, kind: &Kind) -> Result<(), String> {
        if kind.custom.is_some() {
            // All fields are accepted, because a CustomResourceDefinition can declare selectable fields.
            return Ok(());
        }
        let own: &[&str] = match kind.id.as_str() {
            "pods" => &[
                "spec.nodeName",
                "spec.restartPolicy",
                "spec.schedulerName",
                "spec.serviceAccountName",
                "spec.hostNetwork",
                "status.phase",
                "status.podIP",
                "status.podIPs",
                "status.nominatedNodeName",
            ],
            "nodes" => &["spec.unschedulable"],
            "namespaces" => &["status.phase"],
            "secrets" => &["type"],
            "services" => &["spec.clusterIP", "spec.type"],
            "events" => &[
                "involvedObject.kind",
                "involvedObject.namespace",
                "involvedObject.name",
                "involvedObject.uid",
                "involvedObject.apiVersion",
                "involvedObject.resourceVersion",
                "involvedObject.fieldPath",
                "reason",
                "reportingComponent",
                "source",
                "type",
            ],
            "replicasets.apps" | "replicationcontrollers" => &["status.replicas"],
            "jobs.batch" => &["status.successful"],
            "certificatesigningrequests.certificates.k8s.io" => &["spec.signerName"],
            _ => &[],
        };
        let is_known = |path: &str| {
            matches!(path, "metadata.name" | "metadata.namespace") || own.contains(&path)
        };
        match self.fields.iter().find(|(path, ..)| !is_known(path)) {
            None => Ok(()),
            Some((path, ..)) if own.is_empty() => Err(format!(
                "{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            )),
            Some((path, ..)) => Err(format!("field label not supported: {path}")),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.labels.iter().all(|requirement| requirement.holds(object))
            && self
                .fields
                .iter()
                .all(|(path, equal, value)| (field(object, path) == *value) == *equal)
    }
}

/// Writes the selector in the form of a query parameter.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.labels.iter().map(Requirement::text).collect();
        f.write_str(&parts.join(","))
    }
}

/// Value of the field at a dotted path. A missing field counts as empty, except `spec.unschedulable`, which counts as `false`.
fn field(object: &Value, path: &str) -> String {
    let mut at = object;
    for key in path.split('.') {
        match at.get(key) {
            Some(inner) => at = inner,
            None => {
                return if path == "spec.unschedulable" {
                    "false".to_owned()
                } else {
                    String::new()
                };
            }
        }
    }
    match at {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn equal_to(key: &str, value: &str) -> Requirement {
    Requirement { key: key.to_owned(), operator: Operator::In, values: vec![value.to_owned()] }
}

fn expression(expression: &Value) -> Requirement {
    let operator = match object::text(expression, "/operator") {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "DoesNotExist" => Operator::Absent,
        _ => Operator::Exists,
    };
    let values = object::list(expression, "/values").iter();
    Requirement {
        key: object::text(expression, "/key").to_owned(),
        operator,
        values: values.filter_map(|value| value.as_str().map(str::to_owned)).collect(),
    }
}

/// Splits a text at commas that are not escaped.
fn terms(text: &str) -> Vec<&str> {
    let (mut terms, mut start, mut is_escaped) = (vec![], 0, false);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            ',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms.into_iter().filter(|term| !term.is_empty()).collect()
}

/// Removes the escape characters from a value of a field selector.
fn unescaped(text: &str) -> Result<String, String> {
    let mut value = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(kept @ ('\\' | ',' | '=')) => value.push(kept),
                other => {
                    let other = other.map(String::from).unwrap_or_default();
                    return Err(format!(
                        "invalid field selector: invalid escape sequence: \\{other}"
                    ));
                }
            },
            ',' | '=' => {
                let number = u32::from(letter);
                return Err(format!(
                    "invalid field selector: unescaped character in value: {number}"
                ));
            }
            letter => value.push(letter),
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_match_like_kubectl() {
        let pod = json!({
            "metadata": {"name": "a", "labels": {"app": "web", "tier": "front", "rank": "2"}},
            "spec": {"nodeName": "n1"},
        });
        for (labels, fields, wanted) in [
            ("app=web", "", true),
            ("app==web,tier!=back", "", true),
            ("app in (api, web),!gone", "", true),
            ("app notin (web)", "", false),
            ("gone", "", false),
            ("gone!=x", "", true),
            ("rank>1,rank<3", "", true),
            ("rank>2", "", false),
            ("", "spec.nodeName=n1,metadata.name!=b", true),
            ("", "spec.nodeName=n2", false),
            ("", "spec.unschedulable=false", true),
            ("", "status.phase=", true),
        ] {
            let selector = Selector::parse(labels, fields).unwrap();
            assert_eq!(selector.matches(&pod), wanted, "{labels} {fields}");
        }
        for (labels, problem) in [
            (
                "a b",
                "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
            ),
            ("a,,b", "found ',', expected: identifier after ','"),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ] {
            assert_eq!(Selector::parse(labels, "").unwrap_err(), problem);
        }
        assert!(Selector::parse("", "metadata.name").is_err());
    }
}
