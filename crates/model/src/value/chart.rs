//! Helm charts: where a chart comes from, its version and its values.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use talmox_yaml::{Entry, Map, Node, Scalar, Seq, Style, Value};

use super::{Duration, SecretRef};
use crate::language::{Context, Element, Explained, Leaf, Schemas, Spanned};
use crate::source::Span;

/// Name of a chart in a repository, `oci://` address, or path of a folder or .tgz file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chart(String);

impl Chart {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the chart is in an OCI registry.
    pub fn is_registry(&self) -> bool {
        self.0.starts_with("oci://")
    }
}

impl Leaf for Chart {
    const EXPECTED: &'static str =
        "a chart such as `cilium` (with `repo:`), `oci://host/path` or `charts/shop`";

    fn parse(scalar: &Scalar) -> Result<Self, Option<String>> {
        let text = &scalar.text;
        if scalar.is_null() || text.is_empty() || text.contains(char::is_control) {
            return Err(None);
        }
        // Helm would take it for an option.
        if text.starts_with('-') {
            return Err(Some("a chart does not start with `-`".to_owned()));
        }
        if let Some((scheme, rest)) = text.split_once("://") {
            if scheme != "oci" {
                return Err(Some(format!("`{scheme}://` is not the address of a chart")));
            }
            if rest.is_empty() || rest.contains(['@', ' ']) {
                return Err(Some("the address of the chart is not `oci://host/path`".to_owned()));
            }
        }
        Ok(Self(text.clone()))
    }

    fn schema() -> Json {
        json!({ "type": "string", "pattern": "^[^-]" })
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

/// Exact version of a chart. Ranges such as `1.16` or `^1.16.0` are not allowed: their meaning changes with each release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartVersion(String);

impl ChartVersion {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ChartVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Leaf for ChartVersion {
    const EXPECTED: &'static str = "an exact version such as `1.16.5`";

    fn parse(scalar: &Scalar) -> Result<Self, Option<String>> {
        let text = scalar.text.as_str();
        let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let is_word =
            |part: &str| part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.+".contains(&b));
        let plain = text.strip_prefix('v').unwrap_or(text);
        let end = plain.find(['-', '+']).unwrap_or(plain.len());
        let (numbers, rest) = plain.split_at(end);
        let numbers: Vec<&str> = numbers.split('.').collect();
        if numbers.len() != 3 || !numbers.iter().all(|part| is_digits(part)) || !is_word(rest) {
            return Err(None);
        }
        Ok(Self(text.to_owned()))
    }

    fn schema() -> Json {
        json!({ "type": "string", "pattern": "^v?[0-9]+\\.[0-9]+\\.[0-9]+([-+][0-9A-Za-z.+-]*)?$" })
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

/// Whether `up` waits until the workloads of an add-on run, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddonWait {
    No,
    /// Up to `timeouts.health`.
    Yes,
    UpTo(Duration),
}

impl Leaf for AddonWait {
    const EXPECTED: &'static str = "`true`, `false` or a duration such as `10m`";

    fn parse(scalar: &Scalar) -> Result<Self, Option<String>> {
        match <bool as Leaf>::parse(scalar) {
            Ok(true) => Ok(Self::Yes),
            Ok(false) => Ok(Self::No),
            Err(_) => <Duration as Leaf>::parse(scalar).map(Self::UpTo),
        }
    }

    fn schema() -> Json {
        json!({ "anyOf": [<bool as Leaf>::schema(), <Duration as Leaf>::schema()] })
    }

    fn show(&self) -> String {
        match self {
            Self::No => "false".to_owned(),
            Self::Yes => "true".to_owned(),
            Self::UpTo(limit) => limit.to_string(),
        }
    }
}

/// Inline values of a chart. A mapping such as `{secret: path}` at any depth is a reference to a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct ChartValues {
    tree: Arc<Node>,
    /// References in the order of the tree.
    secrets: Vec<Spanned<SecretRef>>,
}

/// Values may be secret, so `Debug` shows none.
impl fmt::Debug for ChartValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChartValues").field("secrets", &self.secrets).finish_non_exhaustive()
    }
}

impl ChartValues {
    /// References to secrets, in the order of the values.
    pub fn secrets(&self) -> &[Spanned<SecretRef>] {
        &self.secrets
    }

    /// Values with each reference replaced by the text that `text_of` returns for it.
    pub fn with_secrets(&self, mut text_of: impl FnMut(&Spanned<SecretRef>) -> String) -> Node {
        let mut references = self.secrets.iter();
        replaced(&self.tree, &mut || references.next().map(&mut text_of).unwrap_or_default())
    }
}

/// Copy of the tree in which each reference is replaced by the next text.
fn replaced(node: &Node, next: &mut dyn FnMut() -> String) -> Node {
    let value = match &node.value {
        Value::Map(_) if SecretRef::well_formed(node).is_some() => {
            Value::Scalar(Scalar { text: next(), style: Style::DoubleQuoted })
        }
        Value::Map(map) => {
            let entry = |entry: &Entry| {
                let value = replaced(&entry.value, next);
                Entry { key: entry.key.clone(), value }
            };
            Value::Map(Map { entries: map.entries.iter().map(entry).collect(), flow: map.flow })
        }
        Value::Seq(seq) => {
            let items = seq.items.iter().map(|item| replaced(item, next)).collect();
            Value::Seq(Seq { items, flow: seq.flow })
        }
        Value::Scalar(scalar) => Value::Scalar(scalar.clone()),
    };
    Node { value, span: node.span, tag: node.tag.clone() }
}

fn collect(node: &Node, cx: &Context<'_>, found: &mut Vec<Spanned<SecretRef>>) {
    match &node.value {
        Value::Map(map) => {
            if let Some(value) = SecretRef::well_formed(node) {
                found.push(Spanned { value, span: cx.span(node) });
                return;
            }
            map.entries.iter().for_each(|entry| collect(&entry.value, cx, found));
        }
        Value::Seq(seq) => seq.items.iter().for_each(|item| collect(item, cx, found)),
        Value::Scalar(_) => {}
    }
}

impl Element for ChartValues {
    fn decode(value: &Node, cx: &mut Context<'_>) -> Option<Self> {
        if value.as_map().is_none() || SecretRef::well_formed(value).is_some() {
            cx.wrong_type(value, "a mapping of values such as `{replicas: 2}`");
            return None;
        }
        let mut secrets = vec![];
        collect(value, cx, &mut secrets);
        Some(Self { tree: Arc::new(value.clone()), secrets })
    }

    fn schema(_: &mut Schemas) -> Json {
        json!({ "type": "object" })
    }

    fn explain(&self, path: &str, span: Option<Span>, out: &mut Vec<Explained>) {
        out.push(Explained { path: path.to_owned(), value: "(inline)".to_owned(), span });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalar(text: &str) -> Scalar {
        Scalar { text: text.to_owned(), ..Scalar::default() }
    }

    #[test]
    fn a_version_is_exact() {
        for good in ["1.16.5", "v1.21.2", "7.7.0-rc.1", "0.1.0+build"] {
            assert!(ChartVersion::parse(&scalar(good)).is_ok(), "{good}");
        }
        for bad in ["", "1.16", "^1.16.0", "1.16.x", ">=1.0.0", "1.0.0 || 2.0.0", "--set=a"] {
            assert!(ChartVersion::parse(&scalar(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_chart_is_a_name_a_registry_address_or_a_path() {
        for good in ["cilium", "oci://ghcr.io/shop/till", "charts/shop", "shop-1.0.0.tgz"] {
            assert!(Chart::parse(&scalar(good)).is_ok(), "{good}");
        }
        for bad in ["", "-x", "--post-renderer=sh", "https://x/y.tgz", "oci://", "oci://u@h/x"] {
            assert!(Chart::parse(&scalar(bad)).is_err(), "{bad}");
        }
    }
}
