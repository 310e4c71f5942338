//! Independent verification of parameters. It uses the text of the schema and the samples in
//! `format_samples`, but neither the tables nor the code under test.

use std::collections::{BTreeMap, BTreeSet};

use regex_lite::Regex;
use serde_json::{Map, Value};

use super::format_samples::samples;
use super::schema_files::{
    ApiSchema, FormatSchema, MethodSchema, enumeration, is_true, limit, pattern,
};
use crate::Release;

/// Names of the rejected parameters; `None` if the schema text does not determine them.
pub(super) fn rejected(
    facts: &ApiSchema,
    method: &MethodSchema<'_>,
    given: &BTreeMap<String, Value>,
) -> Option<BTreeSet<String>> {
    let schema = method.properties();
    let mut rejected = BTreeSet::new();
    for (name, value) in given {
        match find(schema, name) {
            None if method.is_open() => {}
            None => drop(rejected.insert(name.clone())),
            Some(property) => value_rejected(facts, name, property, value, &mut rejected)?,
        }
    }
    let is_there = |name: &str| given.get(name).is_some_and(|value| !value.is_null());
    let keys = given.keys().filter_map(|name| find(schema, name));
    rejected.extend(absent(schema, keys, is_there));
    Some(rejected)
}

/// Names of required parameters that are missing. This includes parameters that another parameter requires.
fn absent<'a>(
    schema: &Map<String, Value>,
    given: impl Iterator<Item = &'a Value>,
    is_there: impl Fn(&str) -> bool,
) -> BTreeSet<String> {
    let required = schema.iter().filter(|(_, property)| {
        !property.get("optional").is_some_and(is_true) && property.get("alias").is_none()
    });
    let wanted = given.filter_map(|property| property.get("requires"));
    let wanted = wanted.map(|name| name.as_str().unwrap());
    let names = required.map(|(name, _)| name.as_str()).chain(wanted);
    names.filter(|name| !is_there(name)).map(str::to_owned).collect()
}

/// Property of a parameter. The schema lists numbered parameters such as `net0` as `net[n]`.
fn find<'a>(schema: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    schema.get(name).filter(|_| !name.ends_with("[n]")).or_else(|| {
        let family = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number: usize = name[family.len()..].parse().ok()?;
        schema.get(&format!("{family}[n]")).filter(|_| name == format!("{family}{number}"))
    })
}

fn value_rejected(
    facts: &ApiSchema,
    name: &str,
    property: &Value,
    value: &Value,
    rejected: &mut BTreeSet<String>,
) -> Option<()> {
    let kind = property["type"].as_str().unwrap();
    let is_list = matches!(facts.format(property), Some(FormatSchema::Each(_)));
    let good = match value {
        Value::Null => true,
        Value::Bool(_) => kind == "boolean",
        Value::Array(items) if kind == "array" => {
            for (index, item) in items.iter().enumerate() {
                let name = format!("{name}[{index}]");
                value_rejected(facts, &name, &property["items"], item, rejected)?;
            }
            true
        }
        Value::Array(items) if kind == "string" && is_list => {
            let texts: Vec<&str> = items.iter().map(|item| item.as_str().unwrap()).collect();
            text_ok(facts, property, &texts.join(","))?
        }
        Value::Array(_) | Value::Object(_) => false,
        Value::Number(number) => text_ok(facts, property, &number.to_string())?,
        Value::String(text) if kind == "array" => {
            if matches!(text.as_str(), "" | "0") {
                false
            } else {
                let name = format!("{name}[0]");
                return value_rejected(facts, &name, &property["items"], value, rejected);
            }
        }
        Value::String(text) => text_ok(facts, property, text)?,
    };
    if !good {
        rejected.insert(name.to_owned());
    }
    Some(())
}

fn text_ok(facts: &ApiSchema, property: &Value, text: &str) -> Option<bool> {
    let kind = property["type"].as_str().unwrap();
    let typed = match kind {
        "string" => true,
        "boolean" => text == "0" || text == "1",
        "integer" => matches(r"^[+-]?\d+$", text),
        "number" => matches(r"^[+-]?(\d+\.\d+|\d+\.|\.\d+|\d+)([eE][+-]?\d+)?$", text),
        other => panic!("type {other}"),
    };
    let code = |name: &str, text: &str| {
        let [good, bad] = samples(name, facts.release);
        if good.contains(&text) { Some(true) } else { bad.contains(&text).then_some(false) }
    };
    let formed = match facts.format(property) {
        _ if !typed => return Some(false),
        None => true,
        Some(FormatSchema::UnlessEmpty(_)) if text.is_empty() || text == "0" => true,
        Some(FormatSchema::Named(name) | FormatSchema::UnlessEmpty(name)) => code(name, text)?,
        Some(FormatSchema::Each(name)) => {
            let mut all = true;
            for item in text.split(|c: char| ",; \t\n".contains(c)).filter(|item| !item.is_empty())
            {
                all &= code(name, item)?;
            }
            all
        }
        Some(FormatSchema::Properties(name, keys)) => properties_ok(facts, name, keys, text)?,
    };
    let length = i64::try_from(text.chars().count()).unwrap();
    let number: Option<f64> = text.trim_end_matches('\n').parse().ok();
    #[expect(clippy::cast_precision_loss, reason = "limits are small")]
    let within = |value: f64| {
        limit(property, "minimum").is_none_or(|least| value >= least as f64)
            && limit(property, "maximum").is_none_or(|most| value <= most as f64)
    };
    Some(
        formed
            && pattern(property).is_none_or(|pattern| matches(&format!("^{pattern}$"), text))
            && limit(property, "maxLength").is_none_or(|most| length <= most)
            && limit(property, "minLength").is_none_or(|least| length >= least)
            && number.is_none_or(within)
            && enumeration(property).is_none_or(|values| values.contains(&text)),
    )
}

/// Whether a pattern matches. As in Perl, `$` also matches before a final newline.
fn matches(pattern: &str, text: &str) -> bool {
    let regex = Regex::new(pattern).unwrap();
    regex.is_match(text) || text.strip_suffix('\n').is_some_and(|text| regex.is_match(text))
}

fn properties_ok(
    facts: &ApiSchema,
    name: Option<&str>,
    keys: &Map<String, Value>,
    text: &str,
) -> Option<bool> {
    let Some(fields) = read(facts.release, keys, text) else { return Some(false) };
    let mut good = true;
    for (key, value) in &fields {
        match keys.get(key) {
            Some(property) if property.get("alias").is_none() => {
                good &= text_ok(facts, property, value)?;
            }
            _ => good = false,
        }
    }
    let given = fields.keys().filter_map(|key| keys.get(key));
    good &= absent(keys, given, |key| fields.contains_key(key)).is_empty();
    if !good {
        return Some(false);
    }
    let has = |key: &str, value: &str| fields.get(key).is_some_and(|text| text == value);
    match name {
        Some("prune-backups") => {
            let mut counts = fields.iter().filter(|(key, _)| *key != "keep-all");
            let counted = counts.any(|(_, count)| !count.trim_start_matches(['0', '+']).is_empty());
            Some(!(has("keep-all", "1") && counted))
        }
        Some("pve-vm-cpu-conf") if fields.contains_key("flags") => None,
        Some("pve-vm-cpu-conf") => {
            let models = enumeration(&keys["reported-model"]).unwrap();
            let known =
                |model: &String| models.contains(&model.as_str()) || model == "x86-64-v2-AES";
            Some(fields.get("cputype").is_some_and(known) && !fields.contains_key("reported-model"))
        }
        _ => Some(true),
    }
}

/// Keys and values of a property string; `None` if the string is malformed.
fn read(
    release: Release,
    keys: &Map<String, Value>,
    text: &str,
) -> Option<BTreeMap<String, String>> {
    let mut fields: BTreeMap<String, String> = BTreeMap::new();
    let mut bare = 0;
    for part in text.split(',').filter(|part| !part.trim().is_empty()) {
        let Some((mut key, value)) = part.split_once('=') else {
            let is_default = |(_, property): &(_, &Value)| property.get("default_key").is_some();
            let (key, property) = keys.iter().find(is_default)?;
            bare += 1;
            if bare > 1 || fields.get(key).is_some_and(|value| value != "0") {
                return None;
            }
            let value = if release == Release::V8 { part } else { word(property, part) };
            fields.insert(key.clone(), value.to_owned());
            continue;
        };
        // As in Perl, a newline at the end is not part of the value.
        let value = value.strip_suffix('\n').unwrap_or(value);
        if key.is_empty() || value.is_empty() || value.contains('\n') {
            return None;
        }
        if fields.contains_key(key) {
            return None;
        }
        let property = keys.get(key);
        if let Some(taker) = property.and_then(|property| property.get("keyAlias")) {
            let taken = fields.insert(taker.as_str().unwrap().to_owned(), key.to_owned());
            if taken.is_some() {
                return None;
            }
        }
        if let Some(alias) = property.and_then(|property| property.get("alias")) {
            key = alias.as_str().unwrap();
            if release == Release::V9 && fields.contains_key(key) {
                return None;
            }
        }
        let value = keys.get(key).map_or(value, |property| word(property, value));
        fields.insert(key.to_owned(), value.to_owned());
    }
    Some(fields)
}

/// Converts a boolean word in a property string to `0` or `1`. Other texts stay unchanged.
fn word<'a>(property: &Value, text: &'a str) -> &'a str {
    match text.strip_suffix('\n').unwrap_or(text).to_lowercase().as_str() {
        _ if property["type"] != "boolean" => text,
        "1" | "on" | "yes" | "true" => "1",
        "0" | "off" | "no" | "false" => "0",
        _ => text,
    }
}
