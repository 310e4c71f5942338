//! Comparison of texts and values that contain placeholders.

use regex_lite::Regex;
use serde_json::Value as Json;

/// Whether a text matches the expected text. A placeholder matches any text of its kind.
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
            // If the text contains a source position, only the part before it is compared.
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

/// Path of the first difference between two values, if there is one.
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

/// Sorts a list by the names of its items, because the order of the list has no meaning.
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
