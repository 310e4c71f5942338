//! JSON in JSON patches. Strings are quoted scalars, and other scalars are plain, in the notation of Go's JSON encoder.
//!
//! The conversion of a config to JSON and back uses YAML 1.1, in which `off` is a boolean.

use talmox_yaml::{Entry, Map, Node, Resolved, Scalar, Seq, Style, Value, timestamp};

use crate::any;
use crate::format::text;

/// Whether the source of a parsed YAML tree has JSON syntax.
pub(super) fn is_json(node: &Node) -> bool {
    match &node.value {
        Value::Map(map) => {
            let is_string = |node: &Node| {
                node.as_scalar().is_some_and(|scalar| scalar.style == Style::DoubleQuoted)
            };
            map.flow && map.entries.iter().all(|e| is_string(&e.key) && is_json(&e.value))
        }
        Value::Seq(seq) => seq.flow && seq.items.iter().all(is_json),
        Value::Scalar(scalar) => match scalar.style {
            Style::DoubleQuoted => true,
            Style::Plain => {
                matches!(scalar.text.as_str(), "null" | "true" | "false") || is_number(&scalar.text)
            }
            _ => false,
        },
    }
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let whole = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let starts_well = whole == 1 || (whole > 1 && !digits.starts_with('0'));
    let ends_well = digits.ends_with(|c: char| c.is_ascii_digit());
    starts_well && ends_well && !digits.contains('_') && digits.parse::<f64>().is_ok()
}

/// Converts the value of an operation that was written in YAML.
pub(super) fn from_patch(node: &Node) -> Result<Node, String> {
    match &node.value {
        Value::Map(map) => {
            let mut json = Map::default();
            for entry in unique(map)?.entries {
                let key = entry.key.as_scalar().filter(|key| is_text(key));
                let key = key.ok_or("json: unsupported type: map[interface {}]interface {}")?;
                set(&mut json, &key.text, from_patch(&entry.value)?);
            }
            Ok(Node::from(Value::Map(json)))
        }
        Value::Seq(seq) => list(seq, from_patch),
        Value::Scalar(scalar) => match scalar.resolve() {
            Resolved::Text => {
                let full = timestamp(&scalar.text).filter(|_| scalar.style == Style::Plain);
                Ok(text(full.unwrap_or_else(|| scalar.text.clone())))
            }
            Resolved::Float(value) => number(value),
            _ => Ok(any::canonical(node)),
        },
    }
}

/// Whether the YAML parser for patches treats a key as text.
fn is_text(key: &Scalar) -> bool {
    let is_time = key.style == Style::Plain && timestamp(&key.text).is_some();
    key.resolve() == Resolved::Text && !is_time
}

/// Converts a config to JSON.
pub(super) fn from_config(node: &Node) -> Result<Node, String> {
    match &node.value {
        Value::Map(map) => {
            let mut json = Map::default();
            for entry in &map.entries {
                set(&mut json, &key(&entry.key)?, from_config(&entry.value)?);
            }
            Ok(Node::from(Value::Map(json)))
        }
        Value::Seq(seq) => list(seq, from_config),
        Value::Scalar(scalar) => match (old_bool(scalar), scalar.resolve()) {
            (Some(value), _) => Ok(Node::plain(value.to_string())),
            (None, Resolved::Float(0.0)) => Ok(Node::plain(old_zero(&scalar.text))),
            (None, Resolved::Float(value)) => number(value),
            (None, Resolved::Text) => Ok(text(&scalar.text)),
            (None, _) => Ok(any::canonical(node)),
        },
    }
}

fn key(node: &Node) -> Result<String, String> {
    let unsupported = || format!("Unsupported map key: {}", node.as_str().unwrap_or_default());
    let scalar = node.as_scalar().ok_or_else(unsupported)?;
    if let Some(value) = old_bool(scalar) {
        return Ok(value.to_string());
    }
    match scalar.resolve() {
        Resolved::Text => Ok(scalar.text.clone()),
        Resolved::Bool(value) => Ok(value.to_string()),
        Resolved::Int(value) if i64::try_from(value).is_ok() => Ok(value.to_string()),
        Resolved::Float(0.0) => Ok(old_zero(&scalar.text).to_owned()),
        // Keys are written with the precision of a 32-bit float.
        #[expect(clippy::cast_possible_truncation, reason = "the loss of precision is intended")]
        Resolved::Float(value) => {
            let single = (value as f32).to_string();
            Ok(any::write_float(single.parse().unwrap_or(value)))
        }
        Resolved::Null | Resolved::Int(_) => Err(unsupported()),
    }
}

/// Zero in JSON. In YAML 1.1, `-0` is negative only if it has a fraction or an exponent.
fn old_zero(text: &str) -> &'static str {
    if text.starts_with('-') && text.contains(['.', 'e', 'E']) { "-0" } else { "0" }
}

/// Formats a number like Go's `encoding/json`. Numbers from 1e-6 up to, but not including, 1e21 have no exponent.
fn number(value: f64) -> Result<Node, String> {
    if !value.is_finite() {
        return Err("json: unsupported value".to_owned());
    }
    let size = value.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return Ok(Node::plain(value.to_string()));
    }
    let written = format!("{value:e}");
    let sign = if size < 1.0 { "e" } else { "e+" };
    Ok(Node::plain(written.replacen('e', sign, 1)))
}

/// Converts JSON to a tree that is parsed as a config again. Numbers lose the notation that they had in the patch.
pub(super) fn to_yaml(node: &Node) -> Node {
    match &node.value {
        Value::Map(map) => {
            let entries = map.entries.iter();
            let entries =
                entries.map(|entry| Entry { key: entry.key.clone(), value: to_yaml(&entry.value) });
            Node::from(Value::Map(Map { entries: entries.collect(), flow: false }))
        }
        Value::Seq(seq) => {
            let items = seq.items.iter().map(to_yaml).collect();
            Node::from(Value::Seq(Seq { items, flow: false }))
        }
        Value::Scalar(scalar) => match scalar.resolve() {
            Resolved::Float(0.0) => Node::plain(old_zero(&scalar.text)),
            Resolved::Text => text(&scalar.text),
            _ => any::canonical(node),
        },
    }
}

/// Whether two values are equal in JSON. Numbers are compared by their notation.
pub(super) fn is_same(left: &Node, right: &Node) -> bool {
    match (&left.value, &right.value) {
        (Value::Map(left), Value::Map(right)) => {
            left.entries.len() == right.entries.len()
                && left.entries.iter().all(|entry| {
                    let key = entry.key.as_str().unwrap_or_default();
                    right.get(key).is_some_and(|other| is_same(&entry.value, other))
                })
        }
        (Value::Seq(left), Value::Seq(right)) => {
            left.items.len() == right.items.len()
                && left.items.iter().zip(&right.items).all(|(left, right)| is_same(left, right))
        }
        (Value::Scalar(left), Value::Scalar(right)) => {
            let is_string = |scalar: &Scalar| scalar.style != Style::Plain;
            left.text == right.text && is_string(left) == is_string(right)
        }
        _ => false,
    }
}

fn list(seq: &Seq, item: impl Fn(&Node) -> Result<Node, String>) -> Result<Node, String> {
    let items = seq.items.iter().map(item).collect::<Result<_, _>>()?;
    Ok(Node::from(Value::Seq(Seq { items, flow: false })))
}

/// The same mapping, or an error if a key occurs twice, because YAML does not allow this.
pub(super) fn unique(map: &Map) -> Result<Map, String> {
    let once = last_of_each(map);
    if once.entries.len() < map.entries.len() {
        return Err("a mapping key is already defined".to_owned());
    }
    Ok(map.clone())
}

/// The mapping with unique keys. If a key occurs several times, JSON uses the last value.
pub(super) fn last_of_each(map: &Map) -> Map {
    let mut once = Map::default();
    for entry in &map.entries {
        set(&mut once, entry.key.as_str().unwrap_or_default(), entry.value.clone());
    }
    once
}

/// Sets the value of a key, and replaces an existing value.
pub(super) fn set(map: &mut Map, key: &str, value: Node) {
    match map.entries.iter_mut().find(|entry| entry.key.as_str() == Some(key)) {
        Some(entry) => entry.value = value,
        None => map.entries.push(Entry { key: text(key), value }),
    }
}

fn old_bool(scalar: &Scalar) -> Option<bool> {
    if scalar.style != Style::Plain {
        return None;
    }
    match scalar.text.as_str() {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}
