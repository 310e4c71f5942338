//! Verification of parameter values. The answer names all invalid parameters, each with its first error.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::endpoint::Endpoint;
use super::perl::{is_integer, is_number, is_true, number, split_list};
use super::property::{Property, Schema, ValueCheck, ValueKind};
use super::value::{Parameters, Raw, Verified};
use crate::{ApiError, Release};

/// Verifies the parameters of a call, including those of its path.
pub(crate) fn verify(
    endpoint: &Endpoint,
    raw: &BTreeMap<String, Raw>,
) -> Result<Parameters, ApiError> {
    let schema = &endpoint.parameters;
    let mut errors = Errors::default();
    let mut parameters = Parameters::default();
    for (name, value) in raw {
        match schema.get(name) {
            Some(property) => {
                if let Some(value) =
                    verify_value(schema.release, name, property, value, &mut errors)
                {
                    parameters.insert(name.clone(), value);
                }
            }
            None if endpoint.open => {
                if let Raw::Text(text) = value {
                    parameters.insert(name.clone(), Verified::Text(text.clone()));
                }
            }
            None => errors.add(name, UNDEFINED.to_owned()),
        }
    }
    let given = |name: &str| raw.get(name).is_some_and(|value| *value != Raw::Null);
    check_presence(schema, "", raw.keys().map(String::as_str), given, &mut errors);
    if errors.0.is_empty() { Ok(parameters) } else { Err(ApiError::parameters(errors.0)) }
}

const MISSING: &str = "property is missing and it is not optional";

pub(crate) const UNDEFINED: &str =
    "property is not defined in schema and the schema does not allow additional properties";

/// Error text of each invalid parameter, by name.
#[derive(Debug, Default)]
pub(crate) struct Errors(pub(crate) BTreeMap<String, String>);

impl Errors {
    /// Adds an error. As in Proxmox, the second error of a parameter is appended after the two characters `\n` instead of a
    /// newline.
    pub(crate) fn add(&mut self, name: &str, text: String) {
        self.0
            .entry(name.to_owned())
            .and_modify(|first| *first = format!("{first}\\n{text}"))
            .or_insert(text);
    }
}

/// Adds an error for each required parameter that is missing.
pub(crate) fn check_presence<'a>(
    schema: &Schema,
    prefix: &str,
    names: impl Iterator<Item = &'a str>,
    given: impl Fn(&str) -> bool,
    errors: &mut Errors,
) {
    for (name, property) in &schema.plain {
        if property.required && !given(name) {
            errors.add(&format!("{prefix}{name}"), MISSING.to_owned());
        }
    }
    for name in names {
        if let Some(wanted) = schema.get(name).and_then(|property| property.requires)
            && !given(wanted)
        {
            let text = match schema.release {
                Release::V8 => {
                    format!("missing property - '{prefix}{name}' requires this property")
                }
                Release::V9 => format!("missing property required by '{prefix}{name}'"),
            };
            errors.add(&format!("{prefix}{wanted}"), text);
        }
    }
}

/// Verified value of a parameter; `None` if the value is invalid or missing. `null` counts as missing.
fn verify_value(
    release: Release,
    name: &str,
    property: &Property,
    value: &Raw,
    errors: &mut Errors,
) -> Option<Verified> {
    match (property.kind, normalized(property, value).as_ref()) {
        (_, Raw::Null) => None,
        (ValueKind::Flag, Raw::Flag(flag)) => Some(Verified::Text(u8::from(*flag).to_string())),
        (ValueKind::List, Raw::List(items)) => {
            let of = property.items.as_deref().expect("invariant: a list has an item type");
            let mut texts = Vec::new();
            for (index, item) in items.iter().enumerate() {
                let name = format!("{name}[{index}]");
                match verify_value(release, &name, of, item, errors) {
                    Some(Verified::Text(text)) => texts.push(text),
                    _ if *item == Raw::Null => errors.add(&name, MISSING.to_owned()),
                    _ => {}
                }
            }
            Some(Verified::List(texts))
        }
        (ValueKind::List, _) => {
            errors.add(name, "type check ('array') failed".to_owned());
            None
        }
        (kind, value) => {
            let checked = match value.scalar() {
                Ok(text) => check_text(release, name, property, &text).map(|()| text),
                Err(other) => Err(format!("type check ('{}') failed - got {other}", kind.name())),
            };
            checked.map_err(|error| errors.add(name, error)).ok().map(Verified::Text)
        }
    }
}

/// Value converted between list and text, as the property requires. A client may send a list as one text, and a form cannot
/// distinguish one value from a list with one item.
fn normalized<'a>(property: &Property, value: &'a Raw) -> Cow<'a, Raw> {
    let listed = matches!(property.rule, Some(ValueCheck::Each(_)));
    match (property.kind, value) {
        (ValueKind::Text, Raw::List(items)) if listed => Cow::Owned(Raw::Text(join(items))),
        (ValueKind::List, Raw::Text(_) | Raw::Number(_)) => match value.scalar() {
            Ok(text) if is_true(&text) => Cow::Owned(Raw::List(vec![value.clone()])),
            _ => Cow::Borrowed(value),
        },
        _ => Cow::Borrowed(value),
    }
}

fn join(items: &[Raw]) -> String {
    let texts = items.iter().map(|item| match item {
        Raw::Flag(flag) => u8::from(*flag).to_string(),
        other => other.scalar().unwrap_or_else(str::to_owned),
    });
    texts.collect::<Vec<_>>().join(",")
}

/// Returns the first error of a text value.
pub(crate) fn check_text(
    release: Release,
    path: &str,
    property: &Property,
    text: &str,
) -> Result<(), String> {
    let well_typed = match property.kind {
        ValueKind::Text | ValueKind::List => true,
        ValueKind::Integer => is_integer(text),
        ValueKind::Number => is_number(text),
        ValueKind::Flag => matches!(text, "0" | "1"),
    };
    if !well_typed {
        return Err(format!("type check ('{}') failed - got '{text}'", property.kind.name()));
    }
    if let Some(rule) = &property.rule {
        check_rule(release, path, rule, text)
            .map_err(|complaint| format!("invalid format - {complaint}\n"))?;
    }
    if property.pattern.as_ref().is_some_and(|pattern| !pattern.fits(text)) {
        return Err("value does not match the regex pattern".to_owned());
    }
    check_limits(property, text)?;
    match &property.one_of {
        Some(values) if !values.iter().any(|value| value == text) => Err(format!(
            "value '{text}' does not have a value in the enumeration '{}'",
            values.join(", ")
        )),
        _ => Ok(()),
    }
}

fn check_rule(release: Release, path: &str, rule: &ValueCheck, text: &str) -> Result<(), String> {
    match rule {
        ValueCheck::Value(value_format) => (value_format.check)(text, release),
        ValueCheck::Each(value_format) => {
            split_list(text).into_iter().try_for_each(|item| (value_format.check)(item, release))
        }
        ValueCheck::UnlessEmpty(value_format) if is_true(text) => {
            (value_format.check)(text, release)
        }
        ValueCheck::UnlessEmpty(_) => Ok(()),
        ValueCheck::Format(format) => match format.parse_at(path, text) {
            Ok(_) => Ok(()),
            Err(malformed) => Err(malformed.to_string()),
        },
    }
}

fn check_limits(property: &Property, text: &str) -> Result<(), String> {
    let length = || text.chars().count();
    if let Some(longest) = property.longest
        && length() > longest
    {
        return Err(format!("value may only be {longest} characters long"));
    }
    if let Some(shortest) = property.shortest
        && length() < shortest
    {
        return Err(format!("value must be at least {shortest} characters long"));
    }
    #[expect(clippy::cast_precision_loss, reason = "limits are far below 2^53")]
    if let Some(number) = number(text) {
        if let Some(most) = property.most
            && number > most as f64
        {
            return Err(format!("value must have a maximum value of {most}"));
        }
        if let Some(least) = property.least
            && number < least as f64
        {
            return Err(format!("value must have a minimum value of {least}"));
        }
    }
    Ok(())
}
