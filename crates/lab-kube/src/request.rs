//! Parsed API requests.

use std::sync::Arc;

use serde_json::Value;

use super::auth::User;
use super::failure::Failure;
use super::kind::{Kind, Kinds};
use super::printer::Include;

/// Authenticated request with its complete body.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Decoded path segments, without empty segments.
    pub(crate) path: Vec<String>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) accept: String,
    pub(crate) content_type: String,
    pub(crate) user_agent: String,
    /// Kubernetes version of the API server that received the request.
    pub(crate) server_version: Arc<str>,
    pub(crate) body: Vec<u8>,
    pub(crate) user: User,
}

/// Form of objects that the client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectForm {
    Full,
    Metadata,
    Table(Include),
}

/// Resource that the path of a request refers to.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) kind: Arc<Kind>,
    pub(crate) version: String,
    /// Namespace of the request; empty for cluster-scoped kinds and for a request about all namespaces.
    pub(crate) namespace: String,
    /// Name of the object; empty for a request about all objects.
    pub(crate) name: String,
    pub(crate) subresource: String,
}

impl Request {
    pub(crate) fn parameter(&self, name: &str) -> &str {
        let found = self.query.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    pub(crate) fn is_set(&self, name: &str) -> bool {
        matches!(self.parameter(name), "true" | "1" | "True")
    }

    pub(crate) fn is_dry(&self) -> bool {
        self.parameter("dryRun") == "All"
    }

    /// Name of the field manager of a request.
    pub(crate) fn manager(&self) -> &str {
        match self.parameter("fieldManager") {
            "" => match self.user_agent.split('/').next().unwrap_or_default() {
                "" => "unknown",
                program => program,
            },
            name => name,
        }
    }

    /// Form that the client prefers, among the supported forms.
    pub(crate) fn form(&self) -> ObjectForm {
        for wanted in self.accept.split(',') {
            let mut parts = wanted.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default();
            if !matches!(kind, "application/json" | "*/*" | "application/*") {
                continue;
            }
            let form = parts.find_map(|part| part.strip_prefix("as="));
            return match form {
                Some("Table") => ObjectForm::Table(match self.parameter("includeObject") {
                    "None" => Include::Nothing,
                    "Object" => Include::Object,
                    _ => Include::Metadata,
                }),
                Some("PartialObjectMetadata" | "PartialObjectMetadataList") => ObjectForm::Metadata,
                _ => ObjectForm::Full,
            };
        }
        ObjectForm::Full
    }

    /// Body as JSON. A YAML body is converted, and so is a protocol buffer body of a few kinds.
    pub(crate) fn json(&self) -> Result<Value, Failure> {
        if self.content_type.starts_with("application/vnd.kubernetes.protobuf") {
            return super::proto::read(&self.body).ok_or_else(|| Failure::unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml",
            ));
        }
        if let Ok(value) = serde_json::from_slice(&self.body) {
            return Ok(value);
        }
        let text = String::from_utf8_lossy(&self.body);
        super::yaml::read(&text).map_err(Failure::bad_request)
    }
}

impl Target {
    /// Finds the resource of a path; `None` for a path without a resource.
    pub(crate) fn find(kinds: &Kinds, path: &[String]) -> Option<Self> {
        let steps: Vec<&str> = path.iter().map(String::as_str).collect();
        let (group, version, rest) = match steps.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            // The path names a namespace itself, or one of its subresources.
            ["namespaces", ..] if group.is_empty() && rest.len() < 3 => ("", rest),
            ["namespaces", _, "status" | "finalize"] if group.is_empty() => ("", rest),
            ["namespaces", namespace, rest @ ..] => (*namespace, rest),
            rest => ("", rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (*plural, "", ""),
            [plural, name] => (*plural, *name, ""),
            [plural, name, subresource] => (*plural, *name, *subresource),
            _ => return None,
        };
        let kind = kinds.find(group, version, plural)?;
        let is_whole = namespace.is_empty() && kind.namespaced && !name.is_empty();
        if is_whole || (!namespace.is_empty() && !kind.namespaced) {
            return None;
        }
        Some(Self {
            kind: Arc::clone(kind),
            version: version.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
        })
    }
}

/// Decodes `a%20b` to `a b`; invalid escapes stay unchanged.
pub fn decode(text: &str, plus_is_space: bool) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = (bytes[at] == b'%')
            .then(|| text.get(at + 1..at + 3))
            .flatten()
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (escaped, bytes[at]) {
            (Some(byte), _) => {
                out.push(byte);
                at += 2;
            }
            (None, b'+') if plus_is_space => out.push(b' '),
            (None, byte) => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

pub fn query(text: &str) -> Vec<(String, String)> {
    text.split('&')
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            (decode(key, true), decode(value, true))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str) -> Option<String> {
        let path: Vec<String> = path.split('/').skip(1).map(str::to_owned).collect();
        let found = Target::find(&Kinds::default(), &path)?;
        let Target { kind, namespace, name, subresource, .. } = found;
        Some(format!("{} {namespace} {name} {subresource}", kind.id))
    }

    #[test]
    fn paths_resolve_to_resources() {
        for (path, wanted) in [
            ("/api/v1/nodes", Some("nodes   ")),
            ("/api/v1/nodes/n1/status", Some("nodes  n1 status")),
            ("/api/v1/namespaces/a", Some("namespaces  a ")),
            ("/api/v1/namespaces/a/finalize", Some("namespaces  a finalize")),
            ("/api/v1/namespaces/a/pods", Some("pods a  ")),
            ("/api/v1/namespaces/a/pods/p/eviction", Some("pods a p eviction")),
            ("/apis/apps/v1/namespaces/a/deployments/d", Some("deployments.apps a d ")),
            ("/apis/apps/v1/deployments", Some("deployments.apps   ")),
            ("/apis/apps/v1/deployments/d", None),
            ("/apis/apps/v2/deployments", None),
            ("/api/v1/namespaces/a/nodes", None),
            ("/healthz", None),
        ] {
            assert_eq!(target(path).as_deref(), wanted, "{path}");
        }
    }

    #[test]
    fn queries_are_decoded() {
        let parts = query("labelSelector=a%3Db%2Cc&x=1+2&flag&bad=%zz");
        let wanted = [("labelSelector", "a=b,c"), ("x", "1 2"), ("flag", ""), ("bad", "%zz")];
        let wanted = wanted.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(parts, wanted);
    }
}
