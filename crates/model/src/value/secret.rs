//! References to secrets. The inventory says where a secret is, never what it is.

use std::fmt;

use serde_json::{Value as Json, json};
use talmox_yaml::Node;

use crate::diagnostic::{Code, Diagnostic};
use crate::language::{Context, Element, Explained, Schemas, closest};
use crate::source::Span;

/// Text that never shows itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Redacted(String);

impl Redacted {
    /// The text itself, for the one place that needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// Where a secret is to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretRef {
    /// `{secret: proxmox.token}`: a path in `secrets.sops.yaml`.
    Secret(String),
    /// `{env: NAME}`: a variable of the environment.
    Env(String),
    /// `{command: [op, read, …]}`: what a command prints.
    Command(Vec<String>),
    /// Written out in the inventory. It works, and is warned about.
    Clear(Redacted),
}

const EXPECTED: &str = "a reference: `{secret: path}`, `{env: NAME}` or `{command: [program, …]}`";

impl Element for SecretRef {
    fn decode(value: &Node, cx: &mut Context<'_>) -> Option<Self> {
        if let Some(scalar) = value.as_scalar() {
            cx.hide(value);
            let span = cx.span(value);
            cx.report(
                Diagnostic::warning(Code::ClearSecret, "a secret in clear text")
                    .at(span)
                    .hint(format!("move it to secrets.sops.yaml and write {EXPECTED}")),
            );
            return Some(Self::Clear(Redacted(scalar.text.clone())));
        }
        let entries = value.as_map().map(|map| map.entries.as_slice());
        let Some([entry]) = entries else {
            cx.wrong_type(value, EXPECTED);
            return None;
        };
        let text = || entry.value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let found = match entry.key.as_str() {
            Some("secret") => text().map(Self::Secret),
            Some("env") => text().map(Self::Env),
            Some("command") => command(&entry.value).map(Self::Command),
            key => {
                // Whatever stands behind a misspelled key may be the secret itself.
                cx.hide(&entry.value);
                let span = cx.span(&entry.key);
                let key = key.unwrap_or_default();
                let diagnostic = Diagnostic::error(
                    Code::UnknownKey,
                    format!("unknown key `{key}` in a reference to a secret"),
                );
                let hint = match closest(key, ["secret", "env", "command"]) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("expected {EXPECTED}"),
                };
                cx.report(diagnostic.at(span).hint(hint));
                return None;
            }
        };
        if found.is_none() {
            cx.wrong_type(&entry.value, EXPECTED);
        }
        found
    }

    fn schema(_: &mut Schemas) -> Json {
        let one = |key: &str, schema: Json| {
            json!({
                "type": "object",
                "properties": { key: schema },
                "required": [key],
                "additionalProperties": false,
            })
        };
        json!({ "anyOf": [
            one("secret", json!({ "type": "string" })),
            one("env", json!({ "type": "string" })),
            one("command", json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 })),
            { "type": "string", "deprecated": true },
        ] })
    }

    fn explain(&self, path: &str, span: Option<Span>, out: &mut Vec<Explained>) {
        let value = match self {
            Self::Secret(path) => format!("secret {path}"),
            Self::Env(name) => format!("environment variable {name}"),
            Self::Command(command) => format!("output of {}", command[0]),
            Self::Clear(_) => "(hidden)".to_owned(),
        };
        out.push(Explained { path: path.to_owned(), value, span });
    }
}

fn command(node: &Node) -> Option<Vec<String>> {
    let words: Option<Vec<String>> =
        node.as_seq()?.items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
    words.filter(|words| words.first().is_some_and(|program| !program.is_empty()))
}
