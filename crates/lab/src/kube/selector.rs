//! Label and field selectors, as query parameters and as parts of objects.

use std::fmt;

use serde_json::Value;

use super::kind::Kind;
use super::object;

/// What an object must have to be meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<(String, bool, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    Absent,
}

impl Selector {
    pub(crate) fn parse(labels: &str, fields: &str) -> Result<Self, String> {
        let labels = split(labels).into_iter().map(requirement).collect::<Result<_, _>>()?;
        let fields = fields.split(',').filter(|part| !part.is_empty()).map(|part| {
            let (key, equal, value) = if let Some((key, value)) = part.split_once("!=") {
                (key, false, value)
            } else if let Some((key, value)) = part.split_once("==") {
                (key, true, value)
            } else if let Some((key, value)) = part.split_once('=') {
                (key, true, value)
            } else {
                return Err(format!("invalid selector: '{fields}'; can't understand '{part}'"));
            };
            Ok((key.to_owned(), equal, value.to_owned()))
        });
        Ok(Self { labels, fields: fields.collect::<Result<_, _>>()? })
    }

    /// `spec.selector` of a workload: `matchLabels` and `matchExpressions`.
    pub(crate) fn of_object(selector: &Value) -> Self {
        let equal = selector["matchLabels"].as_object().into_iter().flatten();
        let mut labels: Vec<Requirement> =
            equal.map(|(key, value)| equal_to(key, value.as_str().unwrap_or_default())).collect();
        labels.extend(object::list(selector, "/matchExpressions").iter().map(expression));
        Self { labels, fields: vec![] }
    }

    /// A plain mapping of labels, as services and node selectors have it.
    pub(crate) fn of_labels(labels: &Value) -> Self {
        let equal = labels.as_object().into_iter().flatten();
        let labels = equal.map(|(key, value)| equal_to(key, value.as_str().unwrap_or_default()));
        Self { labels: labels.collect(), fields: vec![] }
    }

    /// One term of a node selector: expressions over labels, and over `metadata.name`.
    pub(crate) fn of_node_term(term: &Value) -> Self {
        let labels = object::list(term, "/matchExpressions").iter().map(expression).collect();
        let fields = object::list(term, "/matchFields").iter().map(|field| {
            let value = object::text(field, "/values/0").to_owned();
            (object::text(field, "/key").to_owned(), field["operator"] != "NotIn", value)
        });
        Self { labels, fields: fields.collect() }
    }

    /// Objects of a kind are found by a few fields only.
    pub(crate) fn check_fields(&self, kind: &Kind) -> Result<(), String> {
        if kind.custom.is_some() {
            // Definitions may name more, and are believed.
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

/// As a query parameter has it.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.labels.iter().map(Requirement::text).collect();
        f.write_str(&parts.join(","))
    }
}

impl Requirement {
    fn text(&self) -> String {
        let Self { key, values, .. } = self;
        match (self.operator, values.as_slice()) {
            (Operator::In, [value]) => format!("{key}={value}"),
            (Operator::In, _) => format!("{key} in ({})", values.join(",")),
            (Operator::NotIn, _) => format!("{key} notin ({})", values.join(",")),
            (Operator::Exists, _) => key.clone(),
            (Operator::Absent, _) => format!("!{key}"),
        }
    }

    fn holds(&self, object: &Value) -> bool {
        let has = object::label(object, &self.key);
        let is_listed = has.is_some_and(|has| self.values.iter().any(|value| value == has));
        match self.operator {
            Operator::In => is_listed,
            Operator::NotIn => !is_listed,
            Operator::Exists => has.is_some(),
            Operator::Absent => has.is_none(),
        }
    }
}

/// A field by its dotted path; what is missing is empty.
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

/// Splits at commas outside parentheses.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (vec![], 0_usize, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

fn requirement(part: &str) -> Result<Requirement, String> {
    let make = |key: &str, operator, values: Vec<String>| {
        let key = key.trim();
        let is_key =
            !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
        if is_key {
            Ok(Requirement { key: key.to_owned(), operator, values })
        } else {
            Err(format!("unable to parse requirement: found '{key}', expected: identifier"))
        }
    };
    let one = |value: &str| vec![value.trim().to_owned()];
    if let Some(key) = part.strip_prefix('!') {
        return make(key, Operator::Absent, vec![]);
    }
    if let Some((key, value)) = part.split_once("!=") {
        return make(key, Operator::NotIn, one(value));
    }
    if let Some((key, value)) = part.split_once('=') {
        return make(key, Operator::In, one(value.trim_start_matches('=')));
    }
    if let Some((head, values)) = part.strip_suffix(')').and_then(|part| part.split_once('(')) {
        let values = values.split(',').map(|value| value.trim().to_owned()).collect();
        let head = head.trim();
        return match head.rsplit_once(char::is_whitespace) {
            Some((key, "in")) => make(key, Operator::In, values),
            Some((key, "notin")) => make(key, Operator::NotIn, values),
            _ => Err(format!("unable to parse requirement: found '{head}', expected: in, notin")),
        };
    }
    make(part, Operator::Exists, vec![])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_mean_what_kubectl_means() {
        let pod = json!({
            "metadata": {"name": "a", "labels": {"app": "web", "tier": "front"}},
            "spec": {"nodeName": "n1"},
        });
        for (labels, fields, wanted) in [
            ("app=web", "", true),
            ("app==web,tier!=back", "", true),
            ("app in (api, web),!gone", "", true),
            ("app notin (web)", "", false),
            ("gone", "", false),
            ("gone!=x", "", true),
            ("", "spec.nodeName=n1,metadata.name!=b", true),
            ("", "spec.nodeName=n2", false),
            ("", "spec.unschedulable=false", true),
            ("", "status.phase=", true),
        ] {
            let selector = Selector::parse(labels, fields).unwrap();
            assert_eq!(selector.matches(&pod), wanted, "{labels} {fields}");
        }
        assert!(Selector::parse("a b", "").is_err());
        assert!(Selector::parse("", "metadata.name").is_err());
    }
}
