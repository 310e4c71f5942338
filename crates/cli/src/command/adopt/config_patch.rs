//! Patches that turn a generated machine config into the machine config of a running node.

use std::collections::{BTreeMap, BTreeSet};

use talmox_talos_config::leaf::leaves;
use talmox_talos_config::patch::{self, Patch};
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::{Config, Document, Release};
use talmox_yaml::{Entry, Map, Node, Value, emit_all};

use crate::machine_config::without_values;

/// Patches of a node, and the differences that the patches do not express.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ConfigPatch {
    /// Strategic merge patches, in the order in which they are applied.
    pub(super) texts: Vec<String>,
    pub(super) left: Vec<String>,
}

/// Patches that turn the generated config into the real config of a node. Secret values are never part of a patch.
pub(super) fn between(generated: &SecretText, real: &SecretText, release: Release) -> ConfigPatch {
    let read = |text: &SecretText| Config::parse(text.expose(), release);
    let (Ok(generated), Ok(real)) = (read(generated), read(real)) else {
        let left =
            vec!["its machine config is not one that this release of talmox knows".to_owned()];
        return ConfigPatch { texts: vec![], left };
    };
    let hidden = leaves(&real).into_iter().filter(|leaf| leaf.shown().is_none());
    let mut difference = Difference {
        hidden: hidden.map(|leaf| leaf.path).collect(),
        deletions: vec![],
        settings: vec![],
        left: vec![],
    };
    difference.documents(&generated, &real);
    let Difference { deletions, settings, mut left, .. } = difference;
    let documents = [deletions, settings].into_iter().filter(|documents| !documents.is_empty());
    let mut texts: Vec<String> = documents.map(|documents| emit_all(&documents, 4)).collect();
    let patches =
        texts.iter().map(|text| Patch::parse(text, release)).collect::<Result<Vec<_>, _>>();
    let patched = match patches.and_then(|patches| patch::apply_to(&generated, &patches)) {
        Ok(patched) => patched,
        Err(error) => {
            texts.clear();
            let why = without_values(&error.to_string());
            left.push(format!("no patch expresses the differences of its machine config: {why}"));
            generated
        }
    };
    for path in differing(&patched, &real) {
        if !left.iter().any(|known| known.starts_with(&path)) {
            left.push(format!("{path} differs, and a patch does not express it"));
        }
    }
    ConfigPatch { texts, left }
}

/// Paths of the values that differ.
fn differing(one: &Config, other: &Config) -> BTreeSet<String> {
    let values = |config: &Config| -> BTreeMap<String, String> {
        leaves(config).into_iter().map(|leaf| (leaf.path.clone(), leaf.text.to_owned())).collect()
    };
    let (one, other) = (values(one), values(other));
    let paths = one.keys().chain(other.keys());
    paths.filter(|path| one.get(*path) != other.get(*path)).cloned().collect()
}

struct Difference {
    /// Paths of secret values of the real config.
    hidden: BTreeSet<String>,
    /// Documents with `$patch: delete`.
    deletions: Vec<Node>,
    /// Documents with the values to set.
    settings: Vec<Node>,
    left: Vec<String>,
}

impl Difference {
    fn documents(&mut self, generated: &Config, real: &Config) {
        let id = |document: &Document| (document.kind(), document.name().map(str::to_owned));
        for new in real.documents() {
            let path = prefix(new);
            match generated.documents().find(|old| id(old) == id(new)) {
                Some(old) => {
                    let (delete, set) = self.compare(&path, old.body(), new.body());
                    self.deletions.extend(delete.map(|body| with_header(new, body)));
                    self.settings.extend(set.map(|body| with_header(new, body)));
                }
                None if self.is_hidden(&path) => self.hide(&path),
                None => self.settings.push(new.body().clone()),
            }
        }
        for old in generated.documents() {
            if !real.documents().any(|new| id(new) == id(old)) {
                self.deletions.push(with_header(old, deletion()));
            }
        }
    }

    /// Part of a patch that deletes values below a path, and part of a patch that sets values after the deletion.
    fn compare(&mut self, path: &str, old: &Node, new: &Node) -> (Option<Node>, Option<Node>) {
        if is_same(old, new) {
            return (None, None);
        }
        let (Some(before), Some(after)) = (old.as_map(), new.as_map()) else {
            if self.is_hidden(path) {
                self.hide(path);
                return (None, None);
            }
            // A patch appends to a list, so the old list is deleted first.
            let is_scalar = old.as_scalar().is_some() && new.as_scalar().is_some();
            return ((!is_scalar).then(deletion), Some(new.clone()));
        };
        let (mut deletions, mut settings) = (vec![], vec![]);
        for Entry { key, .. } in &before.entries {
            if key.as_str().is_some_and(|name| after.get(name).is_none()) {
                deletions.push(Entry { key: key.clone(), value: deletion() });
            }
        }
        for entry in &after.entries {
            let Some(name) = entry.key.as_str() else { continue };
            let inner = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            match before.get(name) {
                Some(old) => {
                    let (delete, set) = self.compare(&inner, old, &entry.value);
                    let key = || entry.key.clone();
                    deletions.extend(delete.map(|value| Entry { key: key(), value }));
                    settings.extend(set.map(|value| Entry { key: key(), value }));
                }
                None if self.is_hidden(&inner) => self.hide(&inner),
                None => settings.push(entry.clone()),
            }
        }
        (mapping(deletions), mapping(settings))
    }

    /// Whether a value at or below a path is secret.
    fn is_hidden(&self, path: &str) -> bool {
        self.hidden.iter().any(|hidden| match hidden.strip_prefix(path) {
            Some(rest) => rest.is_empty() || rest.starts_with(['.', '[']),
            None => false,
        })
    }

    fn hide(&mut self, path: &str) {
        self.left.push(format!(
            "{path} may contain a secret, so it is not in the inventory: put it into a patch file that is encrypted or not in git"
        ));
    }
}

/// Prefix of the paths of a document's values, in the format of the plan.
fn prefix(document: &Document) -> String {
    match (document.kind(), document.name()) {
        ("v1alpha1", _) => String::new(),
        (kind, Some(name)) => format!("{kind}/{name}"),
        (kind, None) => kind.to_owned(),
    }
}

/// Body of a patch, after the keys that select the document.
fn with_header(document: &Document, body: Node) -> Node {
    const HEADER: [&str; 3] = ["apiVersion", "kind", "name"];
    if document.kind() == "v1alpha1" {
        return body;
    }
    let is_header = |entry: &&Entry| entry.key.as_str().is_some_and(|key| HEADER.contains(&key));
    let own = document.body().as_map().map(|map| map.entries.as_slice()).unwrap_or_default();
    let mut entries: Vec<Entry> = own.iter().filter(is_header).cloned().collect();
    if let Value::Map(map) = body.value {
        entries.extend(map.entries.into_iter().filter(|entry| !is_header(&entry)));
    }
    Node::from(Value::Map(Map { entries, flow: false }))
}

fn deletion() -> Node {
    let entry = Entry { key: Node::plain("$patch"), value: Node::plain("delete") };
    Node::from(Value::Map(Map { entries: vec![entry], flow: false }))
}

fn mapping(entries: Vec<Entry>) -> Option<Node> {
    (!entries.is_empty()).then(|| Node::from(Value::Map(Map { entries, flow: false })))
}

/// Whether two values are equal, regardless of their positions and styles.
fn is_same(one: &Node, other: &Node) -> bool {
    match (&one.value, &other.value) {
        (Value::Scalar(one), Value::Scalar(other)) => one.text == other.text,
        (Value::Seq(one), Value::Seq(other)) => {
            one.items.len() == other.items.len()
                && one.items.iter().zip(&other.items).all(|(one, other)| is_same(one, other))
        }
        (Value::Map(one), Value::Map(other)) => {
            one.entries.len() == other.entries.len()
                && one.entries.iter().all(|entry| {
                    let found = entry.key.as_str().and_then(|key| other.get(key));
                    found.is_some_and(|found| is_same(&entry.value, found))
                })
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "\
version: v1alpha1
machine:
  type: worker
  token: abcdef.0123456789abcdef
  certSANs: [10.0.0.11]
  network:
    hostname: wk-1
  sysctls:
    vm.swappiness: \"1\"
cluster:
  controlPlane:
    endpoint: https://10.0.0.20:6443
";

    fn patch(from: &str, to: &str) -> (ConfigPatch, Vec<String>) {
        let release = Release::of("v1.11.2").unwrap();
        let (generated, real) = (SecretText::new(BASE), SecretText::new(BASE.replace(from, to)));
        let patch = between(&generated, &real, release);
        let patches: Vec<Patch> =
            patch.texts.iter().map(|text| Patch::parse(text, release).unwrap()).collect();
        let config = Config::parse(BASE, release).unwrap();
        let patched = patch::apply_to(&config, &patches).unwrap();
        let real = Config::parse(real.expose(), release).unwrap();
        (patch, differing(&patched, &real).into_iter().collect())
    }

    #[test]
    fn equal_configs_need_no_patch() {
        assert_eq!(patch("worker", "worker").0, ConfigPatch::default());
    }

    #[test]
    fn values_are_set_replaced_and_deleted() {
        for (from, to) in [
            ("https://10.0.0.20:6443", "https://api.example:6443"),
            ("[10.0.0.11]", "[10.0.0.12, wk.example]"),
            ("    hostname: wk-1\n", "    hostname: wk-1\n    nameservers: [9.9.9.9]\n"),
            ("  sysctls:\n    vm.swappiness: \"1\"\n", ""),
            ("  certSANs: [10.0.0.11]\n", ""),
        ] {
            let (patch, left) = patch(from, to);
            assert!(!patch.texts.is_empty() && patch.left.is_empty(), "{to}: {patch:?}");
            assert_eq!(left, Vec::<String>::new(), "{to}: {patch:?}");
        }
    }

    #[test]
    fn secrets_are_named_and_not_written() {
        let (patch, left) = patch("abcdef.0123456789abcdef", "zyxwvu.fedcba9876543210");
        assert_eq!(patch.texts, Vec::<String>::new());
        assert_eq!(left, ["machine.token"]);
        assert!(patch.left.len() == 1 && patch.left[0].starts_with("machine.token may contain"));
    }
}
