//! Definition of a parameter value, and functions for the tables that define parameters.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::format::Format;
use super::perl::Pattern;
use super::value_format::ValueFormat;
use crate::Release;

/// Type of a parameter value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    Text,
    Integer,
    Number,
    Flag,
    /// Array. `items` defines the type of its items.
    List,
}

impl ValueKind {
    /// Name of the type in error texts.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Flag => "boolean",
            Self::List => "array",
        }
    }
}

/// Check of a value in addition to the check of its type.
#[derive(Clone, Debug)]
pub(crate) enum ValueCheck {
    Value(ValueFormat),
    /// Check of each item of a list that is written as one text.
    Each(ValueFormat),
    /// Check of a text, unless the text is empty.
    UnlessEmpty(ValueFormat),
    Format(Arc<Format>),
}

/// Definition of one parameter or of one key of a property string.
#[derive(Clone, Debug)]
pub(crate) struct Property {
    pub(crate) kind: ValueKind,
    pub(crate) items: Option<Box<Self>>,
    pub(crate) required: bool,
    pub(crate) rule: Option<ValueCheck>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) longest: Option<usize>,
    pub(crate) shortest: Option<usize>,
    pub(crate) least: Option<i64>,
    pub(crate) most: Option<i64>,
    pub(crate) one_of: Option<Arc<[String]>>,
    /// Name of another parameter that must be present as well.
    pub(crate) requires: Option<&'static str>,
    /// Whether this is the default key of a property string, whose name may be omitted before the value.
    pub(crate) default_key: bool,
    since: Release,
    until: Release,
}

fn value(kind: ValueKind) -> Property {
    Property {
        kind,
        items: None,
        required: false,
        rule: None,
        pattern: None,
        longest: None,
        shortest: None,
        least: None,
        most: None,
        one_of: None,
        requires: None,
        default_key: false,
        since: Release::V8,
        until: Release::V9,
    }
}

pub(crate) fn text() -> Property {
    value(ValueKind::Text)
}

pub(crate) fn integer() -> Property {
    value(ValueKind::Integer)
}

pub(crate) fn number() -> Property {
    value(ValueKind::Number)
}

pub(crate) fn flag() -> Property {
    value(ValueKind::Flag)
}

pub(crate) fn list(items: Property) -> Property {
    Property { items: Some(Box::new(items)), ..value(ValueKind::List) }
}

/// Text with a format that a function checks.
pub(crate) fn formatted(value_format: ValueFormat) -> Property {
    Property { rule: Some(ValueCheck::Value(value_format)), ..text() }
}

/// List that is written as one text. A function checks the format of each item.
pub(crate) fn each(value_format: ValueFormat) -> Property {
    Property { rule: Some(ValueCheck::Each(value_format)), ..text() }
}

/// Parameter whose value is a property string in the given format.
pub(crate) fn properties(format: &Arc<Format>) -> Property {
    Property { rule: Some(ValueCheck::Format(Arc::clone(format))), ..text() }
}

pub(crate) fn one_of<'a>(values: impl IntoIterator<Item = &'a str>) -> Property {
    text().one_of(values)
}

pub(crate) fn pattern(source: &'static str) -> Property {
    Property { pattern: Some(Pattern::new(source)), ..text() }
}

impl Property {
    pub(crate) fn required(self) -> Self {
        Self { required: true, ..self }
    }

    pub(crate) fn min(self, least: i64) -> Self {
        Self { least: Some(least), ..self }
    }

    pub(crate) fn max(self, most: i64) -> Self {
        Self { most: Some(most), ..self }
    }

    pub(crate) fn longest(self, longest: usize) -> Self {
        Self { longest: Some(longest), ..self }
    }

    pub(crate) fn shortest(self, shortest: usize) -> Self {
        Self { shortest: Some(shortest), ..self }
    }

    pub(crate) fn requires(self, other: &'static str) -> Self {
        Self { requires: Some(other), ..self }
    }

    pub(crate) fn default_key(self) -> Self {
        Self { default_key: true, ..self }
    }

    pub(crate) fn one_of<'a>(self, values: impl IntoIterator<Item = &'a str>) -> Self {
        let values: Vec<String> = values.into_iter().map(str::to_owned).collect();
        Self { one_of: Some(values.into()), ..self }
    }

    pub(crate) fn checked(self, value_format: ValueFormat) -> Self {
        Self { rule: Some(ValueCheck::Value(value_format)), ..self }
    }

    pub(crate) fn checked_unless_empty(self, value_format: ValueFormat) -> Self {
        Self { rule: Some(ValueCheck::UnlessEmpty(value_format)), ..self }
    }

    pub(crate) fn like(self, source: &'static str) -> Self {
        Self { pattern: Some(Pattern::new(source)), ..self }
    }

    pub(crate) fn since(self, since: Release) -> Self {
        Self { since, ..self }
    }

    pub(crate) fn until(self, until: Release) -> Self {
        Self { until, ..self }
    }

    /// Format of the property string; `None` if the value is not a property string.
    pub(crate) fn format(&self) -> Option<&Arc<Format>> {
        match &self.rule {
            Some(ValueCheck::Format(format)) => Some(format),
            _ => None,
        }
    }
}

/// Table entry: parameter name and definition of its value.
#[derive(Clone, Debug)]
pub(crate) struct TableEntry {
    name: &'static str,
    /// Number of options in a numbered family such as `net0`, `net1`; `None` for a single option.
    count: Option<u16>,
    property: Property,
}

pub(crate) fn p(name: &'static str, property: Property) -> TableEntry {
    TableEntry { name, count: None, property }
}

/// Table entry of a numbered family: `name0` to `name{count - 1}`.
pub(crate) fn numbered(name: &'static str, count: u16, property: Property) -> TableEntry {
    TableEntry { name, count: Some(count), property }
}

/// Parameters of a call, or keys of a property string.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    pub(crate) release: Release,
    pub(crate) plain: BTreeMap<&'static str, Property>,
    pub(crate) numbered: BTreeMap<&'static str, (u16, Property)>,
}

impl Schema {
    /// Creates a schema with those entries that exist in the release.
    pub(crate) fn new(release: Release, entries: impl IntoIterator<Item = TableEntry>) -> Self {
        let mut schema = Self { release, plain: BTreeMap::new(), numbered: BTreeMap::new() };
        for TableEntry { name, count, property } in entries {
            if !(property.since..=property.until).contains(&release) {
                continue;
            }
            match count {
                None => drop(schema.plain.insert(name, property)),
                Some(count) => drop(schema.numbered.insert(name, (count, property))),
            }
        }
        schema
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Property> {
        self.plain.get(name).or_else(|| {
            let (family, index) = split_index(name)?;
            let (count, property) = self.numbered.get(family)?;
            (index < *count).then_some(property)
        })
    }
}

/// Family and index of a numbered option, such as `scsi` and 3 for `scsi3`. An index with leading zeros is invalid.
pub(crate) fn split_index(name: &str) -> Option<(&str, u16)> {
    let family = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &name[family.len()..];
    if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    Some((family, digits.parse().ok()?))
}
