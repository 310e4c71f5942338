//! Judges values. Every value has one fault at most, the first found; several values may be wrong at
//! once, and the answer names them all.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::endpoint::Endpoint;
use super::perl::{is_integer, is_number, is_true, number, split_list};
use super::property::{Kind, Property, Rule, Schema};
use super::value::{Parameters, Raw, Verified};
use crate::{Refusal, Release};

/// Judges the parameters of a call, those of its path among them.
pub(crate) fn verify(
    endpoint: &Endpoint,
    raw: &BTreeMap<String, Raw>,
) -> Result<Parameters, Refusal> {
    let schema = &endpoint.parameters;
    let mut errors = Errors::default();
    let mut parameters = Parameters::default();
    for (name, value) in raw {
        match schema.get(name) {
            Some(property) => {
                if let Some(value) = judge(schema.release, name, property, value, &mut errors) {
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
    if errors.0.is_empty() { Ok(parameters) } else { Err(Refusal::parameters(errors.0)) }
}

const MISSING: &str = "property is missing and it is not optional";

pub(crate) const UNDEFINED: &str =
    "property is not defined in schema and the schema does not allow additional properties";

/// What is wrong, by name.
#[derive(Debug, Default)]
pub(crate) struct Errors(pub(crate) BTreeMap<String, String>);

impl Errors {
    /// A second error of the same name is put behind the first with a backslash and an `n`, not with
    /// a line end: an old slip that callers see.
    pub(crate) fn add(&mut self, name: &str, text: String) {
        self.0
            .entry(name.to_owned())
            .and_modify(|first| *first = format!("{first}\\n{text}"))
            .or_insert(text);
    }
}

/// What must be there and is not.
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

/// A parameter's value, if nothing is wrong with it. `null` is as good as not given.
fn judge(
    release: Release,
    name: &str,
    property: &Property,
    value: &Raw,
    errors: &mut Errors,
) -> Option<Verified> {
    match (property.kind, normalized(property, value).as_ref()) {
        (_, Raw::Null) => None,
        (Kind::Flag, Raw::Flag(flag)) => Some(Verified::Text(u8::from(*flag).to_string())),
        (Kind::List, Raw::List(items)) => {
            let of = property.items.as_deref().expect("invariant: lists say what they are of");
            let mut texts = Vec::new();
            for (index, item) in items.iter().enumerate() {
                let name = format!("{name}[{index}]");
                match judge(release, &name, of, item, errors) {
                    Some(Verified::Text(text)) => texts.push(text),
                    _ if *item == Raw::Null => errors.add(&name, MISSING.to_owned()),
                    _ => {}
                }
            }
            Some(Verified::List(texts))
        }
        (Kind::List, _) => {
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

/// Lists came in one text once, and do so still; arrays are newer, and forms cannot tell one item
/// from an array of one.
fn normalized<'a>(property: &Property, value: &'a Raw) -> Cow<'a, Raw> {
    let listed = matches!(property.rule, Some(Rule::Each(_)));
    match (property.kind, value) {
        (Kind::Text, Raw::List(items)) if listed => Cow::Owned(Raw::Text(join(items))),
        (Kind::List, Raw::Text(_) | Raw::Number(_)) => match value.scalar() {
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

/// The first fault of one text.
pub(crate) fn check_text(
    release: Release,
    path: &str,
    property: &Property,
    text: &str,
) -> Result<(), String> {
    let well_typed = match property.kind {
        Kind::Text | Kind::List => true,
        Kind::Integer => is_integer(text),
        Kind::Number => is_number(text),
        Kind::Flag => matches!(text, "0" | "1"),
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

fn check_rule(release: Release, path: &str, rule: &Rule, text: &str) -> Result<(), String> {
    match rule {
        Rule::Code(code) => (code.check)(text, release),
        Rule::Each(code) => {
            split_list(text).into_iter().try_for_each(|item| (code.check)(item, release))
        }
        Rule::UnlessEmpty(code) if is_true(text) => (code.check)(text, release),
        Rule::UnlessEmpty(_) => Ok(()),
        Rule::Format(format) => match format.parse_at(path, text) {
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
