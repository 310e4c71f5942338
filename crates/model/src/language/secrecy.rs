//! Hides secrets from messages and snippets.
//!
//! If the name of a key looks like the name of a secret, the value is hidden in the source text, before any message is
//! created. This applies at any depth, to known and unknown keys, to duplicate keys, and to values of any type. Only
//! valid references (`{secret: path}`, `{env: NAME}`, `{command: […]}`) stay visible, because they do not contain the
//! secret.

use talmox_yaml::{Node, Value};

use crate::source::{SourceId, Sources, Span};
use crate::value::SecretRef;

/// Whether a key looks like the name of a secret, such as `token`, `password`, `auth_key` or `client-secret`.
pub(crate) fn looks_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    // SSH public keys, and their fingerprints, are not secret.
    if key.starts_with("ssh_") && key.ends_with("keys") {
        return false;
    }
    ["token", "secret", "pass", "key", "credential"].iter().any(|part| key.contains(part))
}

/// Whether the key of a label looks like the name of a secret. Labels are public in Kubernetes, and many harmless
/// labels have names such as `keyboard` or `compass`. Therefore only whole words count.
fn is_secret_label(key: &str) -> bool {
    const WORDS: [&str; 7] =
        ["token", "secret", "password", "passwd", "passphrase", "credential", "credentials"];
    let key = key.to_ascii_lowercase();
    key.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| WORDS.contains(&word))
}

/// Whether a message contains a part of a hidden text.
pub(crate) fn repeats(message: &str, text: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric()).any(|word| word.len() > 2 && message.contains(word))
}

/// Hides the secrets in a text that was parsed.
pub(crate) fn hide_in_tree(documents: &[Node], source: SourceId, sources: &mut Sources) {
    let mut found = vec![];
    for document in documents {
        look(document, sources.get(source).text(), looks_secret, &mut found);
    }
    for place in found {
        sources.hide(Span::of(source, place));
    }
}

/// Searches a node for secrets. `is_secret` applies to the keys of this mapping. The keys below are checked with
/// [`is_secret_label`] if they are labels, otherwise with [`looks_secret`].
fn look(node: &Node, text: &str, is_secret: fn(&str) -> bool, found: &mut Vec<talmox_yaml::Span>) {
    match &node.value {
        Value::Scalar(_) => {
            let written = text.get(node.span.start..node.span.end).unwrap_or_default();
            found.extend(credentials(written).map(|(start, end)| {
                talmox_yaml::Span::new(node.span.start + start, node.span.start + end)
            }));
        }
        Value::Seq(seq) => {
            seq.items.iter().for_each(|item| look(item, text, looks_secret, found));
        }
        Value::Map(map) => {
            if SecretRef::well_formed(node).is_some() {
                return;
            }
            // The `key` of a taint is the key of a label and not a secret.
            let is_taint = map.get("effect").is_some();
            for entry in &map.entries {
                let key = entry.key.as_str().unwrap_or_default();
                if is_secret(key) && !(is_taint && key == "key") && !entry.value.is_null() {
                    if SecretRef::well_formed(&entry.value).is_none() {
                        found.push(entry.value.span);
                    }
                } else {
                    let is_labels = key == "labels" && entry.value.as_map().is_some();
                    let below = if is_labels { is_secret_label } else { looks_secret };
                    look(&entry.value, text, below, found);
                }
            }
        }
    }
}

/// Hides the secrets in a text that is not YAML, line by line. It hides the text after a key that looks like the name
/// of a secret, and the following lines that are indented deeper.
pub(crate) fn hide_in_lines(source: SourceId, sources: &mut Sources) {
    let mut found = vec![];
    let text = sources.get(source).text();
    let mut start = 0;
    let mut hidden_below: Option<usize> = None;
    for line in text.split_inclusive('\n') {
        let content = line.trim_end_matches(['\n', '\r']);
        let indent = content.len() - content.trim_start_matches([' ', '\t', '-']).len();
        let is_blank = content.trim().is_empty();
        if hidden_below.is_some_and(|column| indent > column) && !is_blank {
            found.push(start + indent..start + content.len());
        } else if let Some(at) = after_secret_key(content) {
            hidden_below = Some(indent);
            found.push(start + at..start + content.len());
        } else {
            if !is_blank {
                hidden_below = None;
            }
            found.extend(credentials(content).map(|(from, to)| start + from..start + to));
        }
        start += line.len();
    }
    for place in found {
        sources.hide(Span::new(source, place));
    }
}

/// Start of the value of the first key in the line that looks like the name of a secret.
fn after_secret_key(line: &str) -> Option<usize> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    line.match_indices([':', '=']).find_map(|(at, _)| {
        let before = line[..at].trim_end_matches([' ', '\t', '"', '\'']);
        let key = before.rsplit(|c: char| !is_word(c)).next().unwrap_or_default();
        let rest = &line[at + 1..];
        let value = rest.trim_start();
        (looks_secret(key) && !value.is_empty() || looks_secret(key) && rest.is_empty())
            .then_some(at + 1 + rest.len() - value.len())
    })
}

/// Position of `user:password@` of a URL anywhere in the text.
fn credentials(text: &str) -> Option<(usize, usize)> {
    let at = text.find('@')?;
    let before = &text[..at];
    let start = before
        .rfind(|c: char| matches!(c, '/' | '"' | '\'' | ',' | '[' | '{') || c.is_whitespace());
    let start =
        start.map_or(0, |start| start + before[start..].chars().next().map_or(1, char::len_utf8));
    let is_password = before[start..].split_once(':').is_some_and(|(_, word)| !word.is_empty());
    is_password.then_some((start, at))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn hidden(text: &str) -> String {
        let mut sources = Sources::default();
        let id = sources.add(Some(Path::new("a.yaml")), text.to_owned());
        match talmox_yaml::read(text) {
            Ok(documents) => hide_in_tree(&documents, id, &mut sources),
            Err(_) => hide_in_lines(id, &mut sources),
        }
        sources.get(id).redacted_text().to_owned()
    }

    #[test]
    fn secret_looking_values_are_hidden_at_any_depth() {
        for text in [
            "token: hunter2",
            "a: [{my_token: hunter2}]",
            "password: [hunter2]",
            "password: {secret: a, env: hunter2}",
            "token: {command: hunter2, secret: hunter2}",
            "password:\n  a:\n    - hunter2",
            "endpoint: https://root:hunter2@pve",
            "endpoint: root:hunter2@pve",
            "token: hunter2\n  bad: [",
            "password: |\n  hunter2\n  hunter2\nx: [",
            "- {name: a, passwd: hunter2\n",
            "'api-key': hunter2\nx: [",
            "PASSWORD=hunter2\nx: [",
            "u: https://root:hunter2@pve\nx: [",
            "labels: {example.com/token: hunter2, db-password: hunter2}",
            "labels: {a: {token: hunter2}}",
            "labels: [{my_key: hunter2}]",
        ] {
            assert!(!hidden(text).contains("hunter2"), "{text} -> {}", hidden(text));
        }
    }

    #[test]
    fn references_and_public_keys_stay_visible() {
        for text in [
            "token: {secret: proxmox.token}",
            "token: {env: TOKEN}",
            "auth_key: {command: [op, read, x]}",
            "ssh_authorized_keys: [ssh-ed25519 AAAA me@host]",
            "taints: [{key: gpu, effect: NoSchedule}]",
            "a: root@pam",
            "labels: {example.com/keyboard: qwertz, monkey: \"1\", compass: north}",
        ] {
            assert_eq!(hidden(text), text);
        }
    }
}
