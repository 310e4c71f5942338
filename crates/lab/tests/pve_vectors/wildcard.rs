//! Texts and values with placeholders in them, as the vectors write them.

use regex_lite::Regex;
use serde_json::Value as Json;

/// Whether a text is what the vector expects, placeholders taken for anything of their kind.
pub(crate) fn text_matches(expected: &str, found: &str) -> bool {
    if !expected.contains('<') {
        return expected == found;
    }
    let in_upid = expected.starts_with("UPID:");
    let mut pattern = "(?s)^".to_owned();
    let mut rest = expected;
    while let Some(at) = rest.find('<') {
        let (before, from) = rest.split_at(at);
        pattern.push_str(&regex_lite::escape(before));
        let placeholder = from.find('>').map(|end| &from[..=end]);
        match placeholder.and_then(|name| Some((name, kind(name, in_upid)?))) {
            // A source position: only what stands before it is compared.
            Some(("<LOCATION>", _)) => {
                pattern.push_str(".*");
                rest = "";
                break;
            }
            Some((name, kind)) => {
                pattern.push_str(kind);
                rest = &from[name.len()..];
            }
            None => {
                pattern.push('<');
                rest = &from[1..];
            }
        }
    }
    pattern.push_str(&regex_lite::escape(rest));
    pattern.push('$');
    Regex::new(&pattern).is_ok_and(|regex| regex.is_match(found))
}

fn kind(placeholder: &str, in_upid: bool) -> Option<&'static str> {
    Some(match placeholder {
        "<MAC>" => "[0-9A-F][02468ACE](?::[0-9A-F]{2}){5}",
        "<UUID>" => "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        "<DIGEST>" => "[0-9a-f]{40}",
        "<TIME>" if in_upid => "[0-9A-F]{8}",
        "<TIME>" | "<SIZE>" => "[0-9]+",
        "<QEMUVER>" => r"[0-9]+\.[0-9]+(?:\.[0-9]+)?",
        "<PID>" => "[0-9A-F]{8}",
        "<PSTART>" => "[0-9A-F]{8,9}",
        "<HEX>" => "[0-9a-f]{32}",
        "<LOCATION>" => ".*",
        _ => return None,
    })
}

/// The first place where two values differ, or nothing.
pub(crate) fn difference(expected: &Json, found: &Json) -> Option<String> {
    differ("", expected, found)
}

fn differ(place: &str, expected: &Json, found: &Json) -> Option<String> {
    let wrong = || Some(format!("{place}: expected {expected}, found {found}"));
    match (expected, found) {
        (Json::Object(left), Json::Object(right)) => {
            for (key, value) in left {
                let place = format!("{place}.{key}");
                let Some(other) = right.get(key) else {
                    return Some(format!("{place}: expected {value}, found nothing"));
                };
                if let Some(difference) = differ(&place, value, other) {
                    return Some(difference);
                }
            }
            let more = right.iter().find(|(key, _)| !left.contains_key(*key));
            more.map(|(key, value)| format!("{place}.{key}: expected nothing, found {value}"))
        }
        (Json::Array(left), Json::Array(right)) => {
            let (left, right) = (sorted(left), sorted(right));
            if left.len() != right.len() {
                let names = |list: &[&Json]| {
                    list.iter().map(|item| name(item)).collect::<Vec<_>>().join(" ")
                };
                let (left, right) = (names(&left), names(&right));
                return Some(format!("{place}: expected [{left}], found [{right}]"));
            }
            let mut pairs = left.iter().zip(&right).enumerate();
            pairs.find_map(|(at, (left, right))| differ(&format!("{place}[{at}]"), left, right))
        }
        (Json::String(left), Json::String(right)) if text_matches(left, right) => None,
        (Json::String(left), Json::Number(right))
            if left.starts_with('<') && text_matches(left, &right.to_string()) =>
        {
            None
        }
        (left, right) if left == right => None,
        _ => wrong(),
    }
}

/// Lists have no order of their own: by what names their items.
fn sorted(list: &[Json]) -> Vec<&Json> {
    let mut items: Vec<&Json> = list.iter().collect();
    items.sort_by_key(|item| name(item));
    items
}

fn name(item: &Json) -> String {
    let keys = ["key", "name", "volid", "id", "sid"];
    match keys.iter().find_map(|key| item[*key].as_str()) {
        Some(name) => name.to_owned(),
        None => item.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn placeholders_stand_for_their_kind() {
        let upid = "UPID:pve1:<PID>:<PSTART>:<TIME>:qmcreate:101:ops@pve!ci:";
        assert!(text_matches(
            upid,
            "UPID:pve1:000003E9:00018704:6914F0A1:qmcreate:101:ops@pve!ci:"
        ));
        assert!(!text_matches(
            upid,
            "UPID:pve2:000003E9:00018704:6914F0A1:qmcreate:101:ops@pve!ci:"
        ));
        assert!(text_matches("virtio=<MAC>,bridge=vmbr0", "virtio=BC:24:11:AA:00:64,bridge=vmbr0"));
        assert!(!text_matches(
            "virtio=<MAC>,bridge=vmbr0",
            "virtio=bc:24:11:aa:00:64,bridge=vmbr0"
        ));
        assert!(text_matches("bad. at <LOCATION>", "bad. at /usr/share/x.pm line 3."));
        assert!(!text_matches("bad. at <LOCATION>", "bad."));
        assert!(text_matches("ctime=<TIME>", "ctime=1700000000"));
        assert!(text_matches("a <b> c", "a <b> c"));
    }

    #[test]
    fn differences_name_their_place() {
        let same = difference(
            &json!({"digest": "<DIGEST>", "snaptime": "<TIME>", "n": [{"key": "a"}, {"key": "b"}]}),
            &json!({"n": [{"key": "b"}, {"key": "a"}], "snaptime": 17, "digest": "0".repeat(40)}),
        );
        assert_eq!(same, None);
        let typed = difference(&json!({"cores": 4}), &json!({"cores": "4"}));
        assert_eq!(typed.as_deref(), Some(".cores: expected 4, found \"4\""));
        let more = difference(&json!({}), &json!({"lock": "create"}));
        assert_eq!(more.as_deref(), Some(".lock: expected nothing, found \"create\""));
        let fewer = difference(&json!([{"key": "a"}]), &json!([]));
        assert_eq!(fewer.as_deref(), Some(": expected [a], found []"));
    }
}
