//! References to secrets. The inventory contains the location of a secret, and should not contain its value.

use serde_json::{Value as Json, json};
use talmox_values::SecretText;
use talmox_yaml::{Entry, Node};

use crate::diagnostic::{Code, Diagnostic};
use crate::language::{Context, Element, Explained, Schemas, closest};
use crate::source::Span;

/// Location of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretRef {
    /// `{secret: proxmox.token}`: a path in `secrets.sops.yaml`.
    Secret(String),
    /// `{env: NAME}`: an environment variable.
    Env(String),
    /// `{command: [op, read, …], env: [NAME]}`: the output of a command.
    Command(SecretCommand),
    /// Secret in clear text in the inventory. talmox accepts it with a warning.
    Clear(SecretText),
}

/// Command that prints a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretCommand {
    /// Program and its arguments. The list has at least one word.
    pub words: Vec<String>,
    /// Environment variables that are passed to the command, in addition to PATH and HOME.
    pub env: Vec<String>,
}

const EXPECTED: &str = "a reference: `{secret: path}`, `{env: NAME}` or `{command: [program, …]}`";

const BAD_COMMAND: &str = "the command of the secret is not a list of words";
const ENV_HINT: &str = "write the names of variables that the command needs in addition to PATH and HOME, such as \
                        `{command: [op, read, x], env: [OP_SESSION]}`";

/// Path of keys in `secrets.sops.yaml`, separated by dots.
const PATH: &str = "^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$";
const VARIABLE: &str = "^[A-Za-z_][A-Za-z0-9_]*$";

fn is_path(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    text.split('.').all(|word| !word.is_empty() && word.chars().all(is_letter))
}

fn is_variable(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

impl SecretRef {
    /// Parses a reference that contains only the location of a secret. Any other value may contain the secret itself,
    /// written in the wrong place.
    pub(crate) fn well_formed(value: &Node) -> Option<Self> {
        let entries = value.as_map()?.entries.as_slice();
        if let Some((words, env)) = command_with_env(entries) {
            let (words, env) = (command(words)?, variables(env)?);
            return Some(Self::Command(SecretCommand { words, env }));
        }
        let [entry] = entries else { return None };
        let text = |is_good: fn(&str) -> bool| {
            let text = entry.value.as_str().filter(|text| !entry.value.is_null() && is_good(text));
            text.map(str::to_owned)
        };
        match entry.key.as_str()? {
            "secret" => text(is_path).map(Self::Secret),
            "env" => text(is_variable).map(Self::Env),
            "command" => {
                let words = command(&entry.value)?;
                Some(Self::Command(SecretCommand { words, env: vec![] }))
            }
            _ => None,
        }
    }
}

impl Element for SecretRef {
    fn decode(value: &Node, cx: &mut Context<'_>) -> Option<Self> {
        let found = Self::well_formed(value);
        if found.is_some() {
            return found;
        }
        cx.hide(value);
        let span = cx.span(value);
        if let Some(scalar) = value.as_scalar() {
            let problem = if scalar.text.trim().is_empty() {
                Diagnostic::error(Code::BadValue, "the secret is empty")
                    .hint(format!("write {EXPECTED}"))
            } else {
                Diagnostic::warning(Code::ClearSecret, "the secret is in clear text")
                    .hint(format!("move it to secrets.sops.yaml and write {EXPECTED}"))
            };
            cx.report(problem.at(span));
            return Some(Self::Clear(SecretText::new(&scalar.text)))
                .filter(|_| !scalar.text.trim().is_empty());
        }
        let entries = value.as_map().map(|map| map.entries.as_slice());
        if let Some((words, env)) = entries.and_then(command_with_env) {
            let (at, message, hint) = match command(words) {
                None => (words, BAD_COMMAND, "write `{command: [program, argument]}`"),
                Some(_) => {
                    (env, "the value of `env` is not a list of environment variables", ENV_HINT)
                }
            };
            let span = cx.span(at);
            cx.report(Diagnostic::error(Code::WrongType, message).at(span).hint(hint));
            return None;
        }
        let Some([entry]) = entries else {
            cx.wrong_type(value, EXPECTED);
            return None;
        };
        let (at, code, message, hint) = match entry.key.as_str() {
            Some("secret") => (
                &entry.value,
                Code::BadValue,
                "the value is not the path of a secret".to_owned(),
                "write the path as words with dots between them, such as `{secret: proxmox.token}`"
                    .to_owned(),
            ),
            Some("env") => (
                &entry.value,
                Code::BadValue,
                "the value is not the name of an environment variable".to_owned(),
                "write a name of letters, digits and `_`, such as `{env: PROXMOX_TOKEN}`"
                    .to_owned(),
            ),
            Some("command") => (
                &entry.value,
                Code::WrongType,
                BAD_COMMAND.to_owned(),
                "write `{command: [program, argument]}`".to_owned(),
            ),
            key => {
                let key = key.unwrap_or_default();
                let hint = match closest(key, ["secret", "env", "command"]) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("expected {EXPECTED}"),
                };
                let message = if hint.starts_with("did") {
                    format!("unknown key `{key}` in a reference to a secret")
                } else {
                    // The key may be the secret itself, so the message does not show it.
                    "unknown key in a reference to a secret".to_owned()
                };
                (&entry.key, Code::UnknownKey, message, hint)
            }
        };
        let span = cx.span(at);
        cx.report(Diagnostic::error(code, message).at(span).hint(hint));
        None
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
            one("secret", json!({ "type": "string", "pattern": PATH })),
            one("env", json!({ "type": "string", "pattern": VARIABLE })),
            {
                "type": "object",
                "properties": {
                    "command": { "type": "array", "items": { "type": "string" }, "minItems": 1 },
                    "env": {
                        "type": "array",
                        "items": { "type": "string", "pattern": VARIABLE },
                        "description": "Environment variables that the command gets in addition to PATH and HOME.",
                    },
                },
                "required": ["command"],
                "additionalProperties": false,
            },
            { "type": "string", "minLength": 1, "deprecated": true },
        ] })
    }

    fn explain(&self, path: &str, span: Option<Span>, out: &mut Vec<Explained>) {
        let value = match self {
            Self::Secret(path) => format!("secret {path}"),
            Self::Env(name) => format!("environment variable {name}"),
            Self::Command(command) => format!("output of {}", command.words[0]),
            Self::Clear(_) => "(hidden)".to_owned(),
        };
        out.push(Explained { path: path.to_owned(), value, span });
    }
}

/// Values of `{command: …, env: …}`, in any order of the keys.
fn command_with_env(entries: &[Entry]) -> Option<(&Node, &Node)> {
    let [first, second] = entries else { return None };
    match (first.key.as_str()?, second.key.as_str()?) {
        ("command", "env") => Some((&first.value, &second.value)),
        ("env", "command") => Some((&second.value, &first.value)),
        _ => None,
    }
}

fn variables(node: &Node) -> Option<Vec<String>> {
    let name = |item: &Node| item.as_str().filter(|name| is_variable(name)).map(str::to_owned);
    node.as_seq()?.items.iter().map(name).collect()
}

fn command(node: &Node) -> Option<Vec<String>> {
    let words: Option<Vec<String>> =
        node.as_seq()?.items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
    words.filter(|words| words.first().is_some_and(|program| !program.is_empty()))
}
