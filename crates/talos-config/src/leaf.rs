//! The single values of a config, and which of them may be seen.
//!
//! What is secret by its place stands in the table. Where people choose names themselves, the name
//! decides, and everywhere the text may give itself away. What nobody knows is hidden.

use talmox_yaml::{Node, Value};

use crate::document::{Config, Document};
use crate::schema::{CONFIG_KIND, Release, Struct, Type};

/// Parts of the names of arguments, parameters, settings… that may hold a secret.
const TELLING: &[&str] = &[
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

/// Words that end as if they did.
const HARMLESS: [&str; 2] = ["bypass", "compass"];

/// Where the labels of a node stand.
const LABELS: &str = "machine.nodeLabels";

/// One value.
#[derive(Clone, Debug)]
pub struct Leaf<'a> {
    /// `machine.type`, `LinkConfig/eth0.mtu`…
    pub path: String,
    /// The value itself. Whoever shows it wants [`Leaf::shown`].
    pub text: &'a str,
    sight: Sight,
}

/// How much of a value may be seen, the most first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sight {
    Open,
    /// Its name tells of a secret, but people give such names to switches too.
    Named,
    Secret,
}

impl Leaf<'_> {
    /// The value, if it may be seen.
    pub fn shown(&self) -> Option<&str> {
        let is_shown = match self.sight {
            Sight::Open => !gives_away(self.text),
            Sight::Named => matches!(self.text, "true" | "false"),
            Sight::Secret => false,
        };
        is_shown.then_some(self.text)
    }
}

/// Every value of a config. Documents beyond the first go by kind and name.
pub fn leaves(config: &Config) -> Vec<Leaf<'_>> {
    let mut walk = Walk { release: config.release(), found: vec![] };
    for document in config.documents() {
        walk.record(document.body(), document.kind.record, &start(document), Sight::Open);
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
    fn value(&mut self, node: &'a Node, ty: &'static Type, path: &str, sight: Sight) {
        match (ty, &node.value) {
            _ if node.is_null() => {}
            (Type::Pointer(inner), _) => self.value(node, inner, path, sight),
            (Type::Struct(record), _) => self.record(node, record, path, sight),
            (Type::Scalar(_) | Type::Args | Type::Any, Value::Scalar(scalar)) => {
                self.found.push(Leaf { path: path.to_owned(), text: &scalar.text, sight });
            }
            (Type::List(inner, _), Value::Seq(_)) => self.list(node, inner, path, sight),
            (Type::Args | Type::Any, Value::Seq(_)) => self.list(node, ty, path, sight),
            (Type::Map(inner), Value::Map(_)) => self.names(node, inner, path, sight),
            (Type::Args | Type::Any, Value::Map(_)) => self.names(node, ty, path, sight),
            // Not as the table says: nobody knows what it is.
            _ => self.value(node, &Type::Any, path, Sight::Secret),
        }
    }

    fn record(&mut self, node: &'a Node, record: &'static Struct, path: &str, sight: Sight) {
        let Some(map) = node.as_map() else {
            return self.value(node, &Type::Any, path, Sight::Secret);
        };
        for entry in &map.entries {
            let key = entry.key.as_str().unwrap_or_default();
            let path = within(path, key);
            match record.field(key, self.release) {
                Some(field) if field.secret => {
                    self.value(&entry.value, &field.ty, &path, Sight::Secret);
                }
                Some(field) => self.value(&entry.value, &field.ty, &path, sight),
                None => self.value(&entry.value, &Type::Any, &path, Sight::Secret),
            }
        }
    }

    /// A mapping whose keys people choose. Where more mappings follow that the table knows, such
    /// a key names a thing, not a value.
    fn names(&mut self, node: &'a Node, ty: &'static Type, path: &str, sight: Sight) {
        let is_name = matches!(ty, Type::Scalar(_) | Type::Args | Type::Any);
        for entry in node.as_map().into_iter().flat_map(|map| &map.entries) {
            let key = entry.key.as_str().unwrap_or_default();
            let is_telling = if path == LABELS { is_telling_label } else { is_telling };
            let named = if is_name && is_telling(key) { Sight::Named } else { Sight::Open };
            self.value(&entry.value, ty, &within(path, key), sight.max(named));
        }
    }

    fn list(&mut self, node: &'a Node, ty: &'static Type, path: &str, sight: Sight) {
        let items = node.as_seq().map(|seq| seq.items.as_slice()).unwrap_or_default();
        let mut before = None;
        for (index, item) in items.iter().enumerate() {
            // `--token`, and then what it is.
            let is_named =
                before.is_some_and(|text: &str| text.starts_with('-') && is_telling(text));
            let named = if is_named { Sight::Named } else { Sight::Open };
            self.value(item, ty, &format!("{path}[{index}]"), sight.max(named));
            before = item.as_str();
        }
    }
}

fn within(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Whether a name, or a path of names, is one that secrets have.
pub fn is_telling(name: &str) -> bool {
    // What Kubernetes calls the ways to recognise people, and what they may do.
    let lower = name.to_lowercase().replace("authorization-", "").replace("authentication-", "");
    if TELLING.iter().any(|part| lower.contains(part)) {
        return true;
    }
    // These are parts of many other words.
    let words = words(name);
    words.iter().enumerate().any(|(at, word)| {
        let is_pass = word.trim_end_matches(|last: char| last.is_ascii_digit()).ends_with("pass")
            && !HARMLESS.contains(&word.as_str())
            && words.get(at + 1).is_none_or(|next| next != "through");
        is_pass || word == "env"
    })
}

/// Whether the name of a label says that it holds a secret. Labels are public in Kubernetes, and many harmless ones have a name
/// such as `environment` or `keyboard`: only whole words count.
fn is_telling_label(name: &str) -> bool {
    const WORDS: [&str; 7] =
        ["token", "secret", "password", "passwd", "passphrase", "credential", "credentials"];
    words(name).iter().any(|word| WORDS.contains(&word.as_str()))
}

/// `dbPass` and `DB_PASS` are both `db` and `pass`.
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

/// Whether a text holds a secret, wherever it stands.
fn gives_away(text: &str) -> bool {
    let is_setting = |word: &str| word.split_once('=').is_some_and(|(name, _)| is_telling(name));
    let is_login = |(user, host): (&str, &str)| {
        // Images have a digest there.
        user.contains(':') && !host.starts_with("sha256:") && !host.starts_with("sha512:")
    };
    text.contains('\n')
        || text.contains("PRIVATE KEY")
        || text.contains("://") && text.contains('?')
        || text.split_once('@').is_some_and(is_login)
        || text.split([' ', ',', ';']).any(is_setting)
}
