//! Single values of a config, and whether they may be shown.
//!
//! The schema table marks keys whose values are always secret. If users choose the name of a key, the name determines
//! whether the value is secret. A text that looks like a secret is hidden at any path. Values without a schema are
//! hidden.

use talmox_yaml::{Node, Value};

use crate::document::{Config, Document};
use crate::schema::{CONFIG_KIND, Release, Struct, Type};

/// Parts of names. An argument, parameter or setting whose name contains one of them may contain a secret.
const SECRET_NAME_PARTS: &[&str] = &[
    "auth",
    "credential",
    "environment",
    "header",
    "inline",
    "key",
    "passcode",
    "passphrase",
    "passwd",
    "password",
    "pwd",
    "secret",
    "token",
];

/// Harmless words that end with `pass`.
const HARMLESS: [&str; 2] = ["bypass", "compass"];

/// Path of the node labels.
const LABELS: &str = "machine.nodeLabels";

/// Single value of a config.
#[derive(Clone, Debug)]
pub struct Leaf<'a> {
    /// Path, such as `machine.type` or `LinkConfig/eth0.mtu`.
    pub path: String,
    /// Value, not redacted. Use [`Leaf::shown`] for display.
    pub text: &'a str,
    visibility: Visibility,
}

/// Visibility of a value. The variants are ordered from visible to secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Visibility {
    Open,
    /// The name of the value looks like the name of a secret, but some switches have such a name too.
    Named,
    Secret,
}

impl Leaf<'_> {
    /// The value, if it may be shown.
    pub fn shown(&self) -> Option<&str> {
        let is_shown = match self.visibility {
            Visibility::Open => !looks_like_secret(self.text),
            Visibility::Named => matches!(self.text, "true" | "false"),
            Visibility::Secret => false,
        };
        is_shown.then_some(self.text)
    }
}

/// All values of a config. The path of a value in a document after the first one starts with the kind and the name of
/// the document.
pub fn leaves(config: &Config) -> Vec<Leaf<'_>> {
    let mut walk = Walk { release: config.release(), found: vec![] };
    for document in config.documents() {
        walk.record(document.body(), document.kind.record, &start(document), Visibility::Open);
    }
    walk.found
}

fn start(document: &Document) -> String {
    match (document.kind(), document.name()) {
        (CONFIG_KIND, _) => String::new(),
        (kind, Some(name)) => format!("{kind}/{name}"),
        (kind, None) => kind.to_owned(),
    }
}

struct Walk<'a> {
    release: Release,
    found: Vec<Leaf<'a>>,
}

impl<'a> Walk<'a> {
    fn value(&mut self, node: &'a Node, ty: &'static Type, path: &str, visibility: Visibility) {
        match (ty, &node.value) {
            _ if node.is_null() => {}
            (Type::Pointer(inner), _) => self.value(node, inner, path, visibility),
            (Type::Struct(record), _) => self.record(node, record, path, visibility),
            (Type::Scalar(_) | Type::Args | Type::Any, Value::Scalar(scalar)) => {
                self.found.push(Leaf { path: path.to_owned(), text: &scalar.text, visibility });
            }
            (Type::List(inner, _), Value::Seq(_)) => self.list(node, inner, path, visibility),
            (Type::Args | Type::Any, Value::Seq(_)) => self.list(node, ty, path, visibility),
            (Type::Map(inner), Value::Map(_)) => self.names(node, inner, path, visibility),
            (Type::Args | Type::Any, Value::Map(_)) => self.names(node, ty, path, visibility),
            // The value does not match the schema, so it is hidden.
            _ => self.value(node, &Type::Any, path, Visibility::Secret),
        }
    }

    fn record(
        &mut self,
        node: &'a Node,
        record: &'static Struct,
        path: &str,
        visibility: Visibility,
    ) {
        let Some(map) = node.as_map() else {
            return self.value(node, &Type::Any, path, Visibility::Secret);
        };
        for entry in &map.entries {
            let key = entry.key.as_str().unwrap_or_default();
            let path = within(path, key);
            match record.field(key, self.release) {
                Some(field) if field.secret => {
                    self.value(&entry.value, &field.ty, &path, Visibility::Secret);
                }
                Some(field) => self.value(&entry.value, &field.ty, &path, visibility),
                None => self.value(&entry.value, &Type::Any, &path, Visibility::Secret),
            }
        }
    }

    /// Visits a mapping whose keys users choose. If the values are structs in the schema, a key is the name of an
    /// object and does not determine the visibility.
    fn names(&mut self, node: &'a Node, ty: &'static Type, path: &str, visibility: Visibility) {
        let is_name = matches!(ty, Type::Scalar(_) | Type::Args | Type::Any);
        for entry in node.as_map().into_iter().flat_map(|map| &map.entries) {
            let key = entry.key.as_str().unwrap_or_default();
            let is_secret_name = if path == LABELS { is_secret_label } else { is_secret_name };
            let named =
                if is_name && is_secret_name(key) { Visibility::Named } else { Visibility::Open };
            self.value(&entry.value, ty, &within(path, key), visibility.max(named));
        }
    }

    fn list(&mut self, node: &'a Node, ty: &'static Type, path: &str, visibility: Visibility) {
        let items = node.as_seq().map(|seq| seq.items.as_slice()).unwrap_or_default();
        let mut before = None;
        for (index, item) in items.iter().enumerate() {
            // In a list of arguments, the value follows its name: `--token`, then the token.
            let is_named =
                before.is_some_and(|text: &str| text.starts_with('-') && is_secret_name(text));
            let named = if is_named { Visibility::Named } else { Visibility::Open };
            self.value(item, ty, &format!("{path}[{index}]"), visibility.max(named));
            before = item.as_str();
        }
    }
}

fn within(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Whether a name, or a path of names, looks like the name of a secret.
pub fn is_secret_name(name: &str) -> bool {
    // Kubernetes uses these prefixes for methods of authentication and authorization.
    let lower = name.to_lowercase().replace("authorization-", "").replace("authentication-", "");
    if SECRET_NAME_PARTS.iter().any(|part| lower.contains(part)) {
        return true;
    }
    // The following parts occur in many harmless words, so whole words are compared.
    let words = words(name);
    words.iter().enumerate().any(|(at, word)| {
        let is_pass = word.trim_end_matches(|last: char| last.is_ascii_digit()).ends_with("pass")
            && !HARMLESS.contains(&word.as_str())
            && words.get(at + 1).is_none_or(|next| next != "through");
        is_pass || word == "env"
    })
}

/// Whether the name of a label looks like the name of a secret. Labels are public in Kubernetes, and many harmless
/// labels have names such as `environment` or `keyboard`. Therefore only whole words count.
fn is_secret_label(name: &str) -> bool {
    const WORDS: [&str; 7] =
        ["token", "secret", "password", "passwd", "passphrase", "credential", "credentials"];
    words(name).iter().any(|word| WORDS.contains(&word.as_str()))
}

/// Words of a name in lower case: `dbPass` and `DB_PASS` both consist of `db` and `pass`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in name.chars() {
        let is_upper = letter.is_uppercase();
        if !letter.is_alphanumeric() || is_upper && was_lower {
            words.push(String::new());
        }
        if letter.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(letter.to_lowercase());
        }
        was_lower = letter.is_lowercase() || letter.is_numeric();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether a text looks like a secret, at any path.
fn looks_like_secret(text: &str) -> bool {
    let is_setting =
        |word: &str| word.split_once('=').is_some_and(|(name, _)| is_secret_name(name));
    let is_login = |(user, host): (&str, &str)| {
        // In an image reference, the text after the `@` is a digest.
        user.contains(':') && !host.starts_with("sha256:") && !host.starts_with("sha512:")
    };
    text.contains('\n')
        || text.contains("PRIVATE KEY")
        || text.contains("://") && text.contains('?')
        || text.split_once('@').is_some_and(is_login)
        || text.split([' ', ',', ';']).any(is_setting)
}
