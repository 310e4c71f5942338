//! `.sops.yaml`: recipients and settings of new files.
//!
//! Only age recipients are supported. The result lists other kinds of keys in a rule. The caller finds `.sops.yaml` and
//! passes a path that is relative to its folder.

use talmox_yaml::{Map, Node};

use super::scope::pattern;
use super::{Settings, SopsError};
use crate::age::{AgeError, Recipient};

const FOREIGN: [&str; 5] = ["kms", "pgp", "gcp_kms", "azure_keyvault", "hc_vault_transit_uri"];
const FOREIGN_IN_GROUPS: [&str; 5] = ["kms", "pgp", "gcp_kms", "azure_keyvault", "hc_vault"];

/// Reason why a `.sops.yaml` cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    #[error(".sops.yaml is not YAML")]
    Yaml(#[source] talmox_yaml::ReadError),
    #[error("`creation_rules` must be a list of mappings")]
    NotRules,
    #[error("`{0}` must be a text, or a list of texts")]
    NotText(&'static str),
    #[error("an age recipient in .sops.yaml is invalid")]
    Recipient(#[source] AgeError),
    #[error("a rule in .sops.yaml cannot be used")]
    Settings(#[source] SopsError),
}

/// Settings of a matching rule.
#[derive(Clone, Debug)]
pub struct CreationRule {
    /// Recipients in the order of the file, without duplicates.
    pub recipients: Vec<Recipient>,
    pub settings: Settings,
    /// Kinds of keys in the rule that are not supported.
    pub foreign: Vec<&'static str>,
}

/// First rule of a `.sops.yaml` that matches `path`, which is relative to the folder of the `.sops.yaml`. `None` if no
/// rule matches. In this case `sops` rejects the file, unless `.sops.yaml` has no rules at all.
pub fn creation_rule_for(text: &str, path: &str) -> Result<Option<CreationRule>, RuleError> {
    let documents = talmox_yaml::read(text).map_err(RuleError::Yaml)?;
    let root = documents.first().and_then(Node::as_map);
    let Some(rules) = root.and_then(|map| map.get("creation_rules")) else {
        return Ok(None);
    };
    if rules.is_null() {
        return Ok(None);
    }
    for rule in &rules.as_seq().ok_or(RuleError::NotRules)?.items {
        let rule = rule.as_map().ok_or(RuleError::NotRules)?;
        let regex = rule.get("path_regex").and_then(Node::as_str);
        let fits = match regex.filter(|regex| !regex.is_empty()) {
            None => true,
            Some(regex) => pattern(regex).map_err(RuleError::Settings)?.is_match(path),
        };
        if fits {
            return read_rule(rule).map(Some);
        }
    }
    Ok(None)
}

fn read_rule(rule: &Map) -> Result<CreationRule, RuleError> {
    let settings = Settings::read(rule).map_err(RuleError::Settings)?;
    let groups = rule.get("key_groups").and_then(Node::as_seq);
    let groups = groups.map(|groups| groups.items.as_slice()).unwrap_or_default();
    let mut found = CreationRule { recipients: vec![], settings, foreign: vec![] };
    match groups {
        [] => found.add(rule, &FOREIGN)?,
        [group] => found.add_group(group)?,
        _ => return Err(RuleError::Settings(SopsError::KeyGroups)),
    }
    Ok(found)
}

impl CreationRule {
    fn add_group(&mut self, group: &Node) -> Result<(), RuleError> {
        let group = group.as_map().ok_or(RuleError::NotRules)?;
        if let Some(merged) = group.get("merge").and_then(Node::as_seq) {
            for inner in &merged.items {
                self.add_group(inner)?;
            }
        }
        self.add(group, &FOREIGN_IN_GROUPS)
    }

    fn add(&mut self, keys: &Map, foreign: &[&'static str]) -> Result<(), RuleError> {
        for text in texts(keys, "age")? {
            let recipient = Recipient::parse(text).map_err(RuleError::Recipient)?;
            if !self.recipients.contains(&recipient) {
                self.recipients.push(recipient);
            }
        }
        let named = foreign.iter().filter(|name| keys.get(name).is_some());
        self.foreign.extend(named);
        Ok(())
    }
}

/// Comma-separated text, or a list of such texts.
fn texts<'a>(map: &'a Map, key: &'static str) -> Result<Vec<&'a str>, RuleError> {
    let Some(node) = map.get(key).filter(|node| !node.is_null()) else {
        return Ok(vec![]);
    };
    let nodes = match node.as_seq() {
        Some(seq) => seq.items.iter().collect(),
        None => vec![node],
    };
    let mut found = vec![];
    for node in nodes {
        let text = node.as_str().ok_or(RuleError::NotText(key))?;
        found.extend(text.split(',').map(str::trim).filter(|part| !part.is_empty()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::age::Identity;
    use crate::random::Seeded;

    #[test]
    fn the_first_matching_rule_is_used() {
        let mut randomness = Seeded(3);
        let one = Identity::generate(&mut randomness).recipient();
        let two = Identity::generate(&mut randomness).recipient();
        let text = format!(
            "creation_rules:\n\
             - path_regex: \\.prod\\.yaml$\n  age: '{one}, {two},'\n  encrypted_regex: ^a$\n  mac_only_encrypted: true\n\
             - path_regex: ^inventory/\n  age: [{two}]\n  pgp: ABC\n\
             - path_regex: grouped\n  key_groups:\n  - merge: [{{age: [{one}]}}]\n    age: ['{one}', '{two}']\n\
             - path_regex: split\n  key_groups: [{{age: []}}, {{age: []}}]\n"
        );
        let rule = creation_rule_for(&text, "x/secrets.prod.yaml").unwrap().unwrap();
        assert_eq!(rule.recipients, [one, two]);
        assert!(rule.settings.mac_only_encrypted);
        assert_eq!(rule.settings.scope.to_field(), ("encrypted_regex", "^a$"));
        let rule = creation_rule_for(&text, "inventory/a.yaml").unwrap().unwrap();
        assert_eq!((rule.recipients, rule.foreign), (vec![two], vec!["pgp"]));
        let rule = creation_rule_for(&text, "grouped").unwrap().unwrap();
        assert_eq!(rule.recipients, [one, two]);
        assert!(creation_rule_for(&text, "other").unwrap().is_none());
        assert!(creation_rule_for("stores: {}", "other").unwrap().is_none());
        assert!(matches!(
            creation_rule_for(&text, "split"),
            Err(RuleError::Settings(SopsError::KeyGroups))
        ));
    }

    #[test]
    fn invalid_rules_are_rejected() {
        let rejected = |text: &str| creation_rule_for(text, "x").unwrap_err();
        assert_eq!(rejected("creation_rules: 1"), RuleError::NotRules);
        assert!(matches!(rejected("creation_rules: [{path_regex: '('}]"), RuleError::Settings(_)));
        assert!(matches!(
            rejected("creation_rules: [{age: ssh-ed25519 AAAA}]"),
            RuleError::Recipient(AgeError::UnsupportedRecipient(_))
        ));
    }
}
