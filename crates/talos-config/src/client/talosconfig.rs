//! talosconfig in the format of talosctl.

use std::time::Duration;

use talmox_yaml::{Entry, Map, Node, Value, key_order};

use super::{
    BACKDATED, ClientError, ClientRole, ContextExpiry, Merged, expiry_of, free_name,
    read_commented_root, read_root, set,
};
use crate::format::text as string;
use crate::pki::{LeafRequest, Name, Usage};
use crate::random::Randomness;
use crate::secret::SecretText;
use crate::secrets::{Bundle, to_base64};
use crate::time::UnixTime;
use crate::tree::{map_of, texts};

const FILE: &str = "talosconfig";

/// Input of a talosconfig.
#[derive(Clone, Debug)]
pub struct TalosconfigRequest<'a> {
    /// Name of the context, usually the name of the cluster.
    pub context: &'a str,
    pub endpoints: &'a [String],
    /// Nodes of the context. The field is omitted if the list is empty.
    pub nodes: &'a [String],
    pub roles: &'a [ClientRole],
    pub ttl: Duration,
}

/// Generates a talosconfig with one context and a new certificate.
pub fn generate(
    bundle: &Bundle,
    request: &TalosconfigRequest<'_>,
    now: UnixTime,
    randomness: &mut dyn Randomness,
) -> Result<SecretText, ClientError> {
    let context = new_context(bundle, request, now, randomness)?;
    let root = map_of([
        ("context", string(request.context)),
        ("contexts", map_of([(request.context, context)])),
    ]);
    Ok(SecretText::new(talmox_yaml::emit(&root, 4)))
}

/// Merges the context of `new` into `existing`. `existing` may be empty.
pub fn merge(existing: &str, new: &SecretText) -> Result<Merged, ClientError> {
    let mut root = read_commented_root(existing, FILE)?;
    let mut contexts = contexts_of(&root)?;
    let new = read_root(new.expose(), FILE)?;
    let name = new.get("context").and_then(Node::as_str).unwrap_or_default();
    let new_contexts = contexts_of(&new)?;
    let context = new_contexts
        .get(name)
        .ok_or(ClientError::NotClientFile { file: FILE, what: "its context is missing" })?;
    let mut replaced = false;
    let name = free_name(name, |name| match contexts.get(name) {
        None => true,
        Some(known) => {
            replaced = ca_of(known).is_some() && ca_of(known) == ca_of(context);
            replaced
        }
    });
    set(&mut contexts, &name, context.clone());
    contexts.entries = sorted(contexts.entries);
    set(&mut root, "context", string(&name));
    set(&mut root, "contexts", Node::from(Value::Map(contexts)));
    let text = talmox_yaml::emit(&Node::from(Value::Map(root)), 4);
    Ok(Merged { text: SecretText::new(text), context: name, replaced })
}

/// Entries sorted by key. A comment stays before the entry that follows it.
fn sorted(entries: Vec<Entry>) -> Vec<Entry> {
    let (mut groups, mut open): (Vec<(String, Vec<Entry>)>, Vec<Entry>) = (vec![], vec![]);
    for entry in entries {
        let key = entry.key.as_str().filter(|_| entry.as_comment().is_none()).map(str::to_owned);
        open.push(entry);
        if let Some(key) = key {
            groups.push((key, std::mem::take(&mut open)));
        }
    }
    groups.sort_by(|a, b| key_order(&a.0, &b.0));
    groups.into_iter().flat_map(|(_, group)| group).chain(open).collect()
}

/// Expiry of the certificates in a talosconfig.
pub fn expiry(text: &str) -> Result<Vec<ContextExpiry>, ClientError> {
    let contexts = contexts_of(&read_root(text, FILE)?)?;
    let entries = contexts.entries.iter().map(|entry| {
        let certificate = entry.value.as_map().and_then(|map| map.get("crt"));
        ContextExpiry {
            context: entry.key.as_str().unwrap_or_default().to_owned(),
            not_after: expiry_of(certificate.and_then(Node::as_str)),
        }
    });
    Ok(entries.collect())
}

fn new_context(
    bundle: &Bundle,
    request: &TalosconfigRequest<'_>,
    now: UnixTime,
    randomness: &mut dyn Randomness,
) -> Result<Node, ClientError> {
    if request.roles.is_empty() {
        return Err(ClientError::NoRoles);
    }
    let authority = bundle.certs.os.authority();
    let authority =
        authority.map_err(|source| ClientError::Authority { authority: "Talos API", source })?;
    let mut organizations: Vec<String> = request.roles.iter().map(ToString::to_string).collect();
    organizations.sort();
    organizations.dedup();
    let leaf = LeafRequest {
        subject: Name { organizations, common_name: None },
        alt_names: vec![],
        usage: Usage::Client,
        key_encipherment: false,
        not_before: now.minus(BACKDATED),
        lifetime: request.ttl + BACKDATED,
    };
    let (certificate, key) = authority.issue(&leaf, randomness).map_err(ClientError::Issue)?;
    let mut fields = vec![("endpoints", texts(request.endpoints))];
    if !request.nodes.is_empty() {
        fields.push(("nodes", texts(request.nodes)));
    }
    fields.push(("ca", string(bundle.certs.os.crt_base64())));
    fields.push(("crt", string(to_base64(&certificate.to_pem()))));
    fields.push(("key", string(to_base64(key.to_pem().expose()))));
    Ok(map_of(fields))
}

fn contexts_of(root: &Map) -> Result<Map, ClientError> {
    match root.get("contexts") {
        None => Ok(Map::default()),
        Some(node) if node.is_null() => Ok(Map::default()),
        Some(node) => node
            .as_map()
            .cloned()
            .ok_or(ClientError::NotClientFile { file: FILE, what: "`contexts` is not a mapping" }),
    }
}

fn ca_of(context: &Node) -> Option<&str> {
    context.as_map()?.get("ca")?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::tests::{NOW, bundle};
    use crate::pki::Certificate;
    use crate::random::Seeded;
    use base64::Engine as _;

    fn request(endpoints: &[String]) -> TalosconfigRequest<'_> {
        TalosconfigRequest {
            context: "home",
            endpoints,
            nodes: &[],
            roles: &[ClientRole::Reader, ClientRole::Admin, ClientRole::Reader],
            ttl: Duration::from_hours(1),
        }
    }

    #[test]
    fn a_context_contains_a_certificate_for_its_roles() {
        let endpoints = ["10.0.0.11".to_owned()];
        let text = generate(&bundle(1), &request(&endpoints), NOW, &mut Seeded(2)).unwrap();
        let start = "context: home\ncontexts:\n    home:\n        endpoints:\n            - 10.0.0.11\n        ca: ";
        assert!(text.expose().starts_with(start));
        let line = text.expose().lines().find_map(|line| line.trim().strip_prefix("crt: "));
        let pem = base64::engine::general_purpose::STANDARD.decode(line.unwrap()).unwrap();
        let certificate = Certificate::from_pem(&String::from_utf8(pem).unwrap()).unwrap();
        assert_eq!(certificate.subject.to_string(), "O=os:admin, O=os:reader");
        assert_eq!(certificate.not_before, NOW.minus(BACKDATED));
        assert_eq!(
            expiry(text.expose()).unwrap(),
            [ContextExpiry {
                context: "home".to_owned(),
                not_after: Some(NOW.plus(Duration::from_hours(1))),
            }]
        );
    }

    #[test]
    fn merging_replaces_the_same_cluster_only() {
        let make = |seed| generate(&bundle(seed), &request(&[]), NOW, &mut Seeded(seed)).unwrap();
        let first = merge("", &make(1)).unwrap();
        assert_eq!((first.context.as_str(), first.replaced), ("home", false));
        let again = merge(first.text.expose(), &make(1)).unwrap();
        assert_eq!((again.context.as_str(), again.replaced), ("home", true));
        let other = merge(again.text.expose(), &make(2)).unwrap();
        assert_eq!((other.context.as_str(), other.replaced), ("home-1", false));
        let other = merge(other.text.expose(), &make(2)).unwrap();
        assert_eq!((other.context.as_str(), other.replaced), ("home-1", true));
        assert!(other.text.expose().starts_with("context: home-1\n"));
        assert_eq!(expiry(other.text.expose()).unwrap().len(), 2);
    }

    #[test]
    fn merging_keeps_other_entries() {
        let existing = "context: a\ncontexts:\n    a:\n        endpoints: []\n        auth:\n            siderov1:\n                identity: me\n";
        let new = generate(&bundle(1), &request(&[]), NOW, &mut Seeded(3)).unwrap();
        let merged = merge(existing, &new).unwrap();
        assert!(merged.text.expose().contains("identity: me\n"));
        assert!(matches!(merge("[]", &new), Err(ClientError::NotClientFile { .. })));
    }

    #[test]
    fn merging_keeps_comments() {
        let existing = "# mine\n#context\ncontext: z\ncontexts:\n    # the old one\n    z:\n        # not used\n        endpoints: []\n";
        let new = generate(&bundle(1), &request(&[]), NOW, &mut Seeded(3)).unwrap();
        let merged = merge(existing, &new).unwrap();
        let text = merged.text.expose();
        assert!(
            text.starts_with("# mine\n#context\ncontext: home\ncontexts:\n    home:\n"),
            "{text}"
        );
        let rest = "    # the old one\n    z:\n        # not used\n        endpoints: []\n";
        assert!(text.ends_with(rest), "{text}");
        assert_eq!(merge(text, &new).unwrap().text, merged.text);
    }
}
