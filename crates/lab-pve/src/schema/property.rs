//! What one value must look like, and the words in which tables say so.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::code::Code;
use super::format::Format;
use super::perl::Pattern;
use crate::Release;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Integer,
    Number,
    Flag,
    /// An array; what its items must look like is beside it.
    List,
}

impl Kind {
    /// As error texts spell it.
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

/// A check beyond the type.
#[derive(Clone, Debug)]
pub(crate) enum Rule {
    Code(Code),
    /// Of every item of a list in one text.
    Each(Code),
    /// Of a text that is not empty.
    UnlessEmpty(Code),
    Format(Arc<Format>),
}

#[derive(Clone, Debug)]
pub(crate) struct Property {
    pub(crate) kind: Kind,
    pub(crate) items: Option<Box<Self>>,
    pub(crate) required: bool,
    pub(crate) rule: Option<Rule>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) longest: Option<usize>,
    pub(crate) shortest: Option<usize>,
    pub(crate) least: Option<i64>,
    pub(crate) most: Option<i64>,
    pub(crate) one_of: Option<Arc<[String]>>,
    /// Another parameter that must be there too.
    pub(crate) requires: Option<&'static str>,
    /// In property strings: takes the value that has no key.
    pub(crate) default_key: bool,
    since: Release,
    until: Release,
}

fn value(kind: Kind) -> Property {
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
    value(Kind::Text)
}

pub(crate) fn integer() -> Property {
    value(Kind::Integer)
}

pub(crate) fn number() -> Property {
    value(Kind::Number)
}

pub(crate) fn flag() -> Property {
    value(Kind::Flag)
}

pub(crate) fn list(items: Property) -> Property {
    Property { items: Some(Box::new(items)), ..value(Kind::List) }
}

/// A text in one of the formats that code checks.
pub(crate) fn code(code: Code) -> Property {
    Property { rule: Some(Rule::Code(code)), ..text() }
}

/// A list of such texts in one.
pub(crate) fn each(code: Code) -> Property {
    Property { rule: Some(Rule::Each(code)), ..text() }
}

/// A property string.
pub(crate) fn properties(format: &Arc<Format>) -> Property {
    Property { rule: Some(Rule::Format(Arc::clone(format))), ..text() }
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

    pub(crate) fn checked(self, code: Code) -> Self {
        Self { rule: Some(Rule::Code(code)), ..self }
    }

    pub(crate) fn checked_unless_empty(self, code: Code) -> Self {
        Self { rule: Some(Rule::UnlessEmpty(code)), ..self }
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

    /// The property string's format, if it is one.
    pub(crate) fn format(&self) -> Option<&Arc<Format>> {
        match &self.rule {
            Some(Rule::Format(format)) => Some(format),
            _ => None,
        }
    }
}

/// A line of a table: a name and what its value must look like.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    name: &'static str,
    /// How many there are of a numbered option such as `net0`, `net1`….
    count: Option<u16>,
    property: Property,
}

pub(crate) fn p(name: &'static str, property: Property) -> Entry {
    Entry { name, count: None, property }
}

/// A numbered option: `name0` up to `name` and `count - 1`.
pub(crate) fn numbered(name: &'static str, count: u16, property: Property) -> Entry {
    Entry { name, count: Some(count), property }
}

/// All that may be given together: the parameters of a call or the keys of a property string.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    pub(crate) release: Release,
    pub(crate) plain: BTreeMap<&'static str, Property>,
    pub(crate) numbered: BTreeMap<&'static str, (u16, Property)>,
}

impl Schema {
    /// Keeps the lines that are there on a release.
    pub(crate) fn new(release: Release, entries: impl IntoIterator<Item = Entry>) -> Self {
        let mut schema = Self { release, plain: BTreeMap::new(), numbered: BTreeMap::new() };
        for Entry { name, count, property } in entries {
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

/// `scsi` and 3 of `scsi3`. A number has no zeros in front.
pub(crate) fn split_index(name: &str) -> Option<(&str, u16)> {
    let family = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &name[family.len()..];
    if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    Some((family, digits.parse().ok()?))
}
