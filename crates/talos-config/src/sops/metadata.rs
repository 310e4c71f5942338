//! Metadata section `sops` of a file.

use talmox_yaml::{Entry, Map, Node, Seq, Value};

use super::{SOPS_VERSION, Settings, SopsError};
use crate::format::text as string;

/// Sections of unsupported key types that are written before `age`, in output order. A changed file keeps these
/// sections.
const FOREIGN_BEFORE_AGE: [&str; 4] = ["kms", "gcp_kms", "azure_kv", "hc_vault"];
const FOREIGN_AFTER_MAC: [&str; 1] = ["pgp"];

/// Data key that is wrapped for one recipient.
#[derive(Clone, Debug)]
pub(super) struct AgeKey {
    /// Recipient as written in the file. It may be of an unsupported kind.
    pub(super) recipient: String,
    pub(super) enc: String,
}

/// Metadata of the file, except for the MAC and its time.
#[derive(Clone, Debug)]
pub(super) struct Metadata {
    pub(super) settings: Settings,
    pub(super) age: Vec<AgeKey>,
    foreign: Vec<(&'static str, Node)>,
}

/// MAC of the file, and the time that the MAC is bound to.
#[derive(Debug)]
pub(super) struct Mac {
    pub(super) sealed: String,
    pub(super) last_modified: String,
}

impl Metadata {
    pub(super) fn new(settings: Settings) -> Self {
        Self { settings, age: vec![], foreign: vec![] }
    }

    pub(super) fn read(node: &Node) -> Result<(Self, Mac), SopsError> {
        let map = node.as_map().ok_or(SopsError::NotSops)?;
        let settings = Settings::read(map)?;
        let text = |key: &str| {
            let node = map.get(key);
            node.and_then(Node::as_str).map(str::to_owned)
        };
        let missing = |key: &str| SopsError::BadMetadata(format!("`{key}` is missing"));
        let mac = Mac {
            sealed: text("mac").ok_or_else(|| missing("mac"))?,
            last_modified: without_fraction(
                &text("lastmodified").ok_or_else(|| missing("lastmodified"))?,
            ),
        };
        let keys = key_group(map)?;
        let metadata = Self { settings, age: age_keys(keys)?, foreign: foreign_keys(keys) };
        Ok((metadata, mac))
    }

    /// Names of the sections of unsupported key types.
    pub(super) fn foreign_names(&self) -> String {
        let names: Vec<_> = self.foreign.iter().map(|(name, _)| *name).collect();
        names.join(", ")
    }

    pub(super) fn write(&self, mac: &Mac) -> Node {
        let mut entries = vec![];
        let mut push = |key: &str, value: Node| {
            entries.push(Entry { key: string(key), value });
        };
        let foreign = |names: &'static [&str]| {
            let known = |name: &&str| self.foreign.iter().find(move |(own, _)| own == name);
            names.iter().filter_map(known)
        };
        for (name, node) in foreign(&FOREIGN_BEFORE_AGE) {
            push(name, node.clone());
        }
        push("age", self.write_age());
        push("lastmodified", string(&mac.last_modified));
        push("mac", string(&mac.sealed));
        for (name, node) in foreign(&FOREIGN_AFTER_MAC) {
            push(name, node.clone());
        }
        let (name, text) = self.settings.scope.to_field();
        push(name, string(text));
        if self.settings.mac_only_encrypted {
            push("mac_only_encrypted", Node::plain("true"));
        }
        push("version", string(SOPS_VERSION));
        Node::from(Value::Map(Map { entries, flow: false }))
    }

    fn write_age(&self) -> Node {
        let item = |key: &AgeKey| {
            let entry = |name: &str, text: &str| Entry { key: string(name), value: string(text) };
            let entries = vec![entry("recipient", &key.recipient), entry("enc", &key.enc)];
            Node::from(Value::Map(Map { entries, flow: false }))
        };
        Node::from(Value::Seq(Seq { items: self.age.iter().map(item).collect(), flow: false }))
    }
}

/// Mapping that contains the keys: the section itself, or the only key group in it.
fn key_group(map: &Map) -> Result<&Map, SopsError> {
    let names = FOREIGN_BEFORE_AGE.iter().chain(&FOREIGN_AFTER_MAC);
    let has_keys = |name: &str| {
        let list = map.get(name).and_then(Node::as_seq);
        list.is_some_and(|list| !list.items.is_empty())
    };
    if names.chain(&["age"]).any(|name| has_keys(name)) {
        return Ok(map);
    }
    let groups = map.get("key_groups").and_then(Node::as_seq);
    match groups.map(|groups| groups.items.as_slice()) {
        Some([group]) => group
            .as_map()
            .ok_or_else(|| SopsError::BadMetadata("the key group is not a mapping".to_owned())),
        Some([_, ..]) => Err(SopsError::KeyGroups),
        _ => Err(SopsError::BadMetadata("it contains no keys".to_owned())),
    }
}

fn age_keys(keys: &Map) -> Result<Vec<AgeKey>, SopsError> {
    let Some(list) = keys.get("age").and_then(Node::as_seq) else {
        return Ok(vec![]);
    };
    let bad = || SopsError::BadMetadata("an age recipient lacks `recipient` or `enc`".to_owned());
    let read = |item: &Node| {
        let map = item.as_map()?;
        Some(AgeKey {
            recipient: map.get("recipient")?.as_str()?.to_owned(),
            enc: map.get("enc")?.as_str()?.to_owned(),
        })
    };
    let items = list.items.iter();
    items.map(|item| read(item).ok_or_else(bad)).collect()
}

fn foreign_keys(keys: &Map) -> Vec<(&'static str, Node)> {
    let names = FOREIGN_BEFORE_AGE.iter().chain(&FOREIGN_AFTER_MAC);
    names
        .filter_map(|name| {
            let list = keys.get(name)?;
            let has_items = list.as_seq().is_some_and(|list| !list.items.is_empty());
            has_items.then(|| (*name, list.clone()))
        })
        .collect()
}

/// Time without fractions of a second. `sops` parses the time and writes it again, which removes the fraction.
fn without_fraction(time: &str) -> String {
    let Some(dot) = time.find('.') else {
        return time.to_owned();
    };
    let digits = time[dot + 1..].bytes().take_while(u8::is_ascii_digit);
    let end = dot + 1 + digits.count();
    format!("{}{}", &time[..dot], &time[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Metadata, Mac), SopsError> {
        Metadata::read(&talmox_yaml::read(text).unwrap()[0])
    }

    #[test]
    fn unsupported_keys_are_kept_in_order() {
        let text = "\
kms:
    - arn: x
      enc: w
age:
    - recipient: age1x
      enc: |
        a
lastmodified: \"2026-11-15T02:38:23Z\"
mac: z
pgp:
    - fp: f
encrypted_regex: ^a$
mac_only_encrypted: true
version: 3.11.0
";
        let (metadata, mac) = read(text).unwrap();
        assert_eq!(metadata.foreign_names(), "kms, pgp");
        assert_eq!(talmox_yaml::emit(&metadata.write(&mac), 4), text);
    }

    #[test]
    fn only_a_single_key_group_is_accepted() {
        let rest = "lastmodified: 2026-11-15T02:38:23.5Z\nmac: z\n";
        let one = format!("key_groups: [{{age: [{{recipient: a, enc: b}}]}}]\n{rest}");
        let (metadata, mac) = read(&one).unwrap();
        assert_eq!(metadata.age.len(), 1);
        assert_eq!(mac.last_modified, "2026-11-15T02:38:23Z");
        let two = format!("key_groups: [{{}}, {{}}]\n{rest}");
        assert_eq!(read(&two).unwrap_err(), SopsError::KeyGroups);
        assert!(matches!(read(rest), Err(SopsError::BadMetadata(_))));
        assert!(matches!(read("age: []"), Err(SopsError::BadMetadata(_))));
    }
}
