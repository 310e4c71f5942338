//! Comparison of endpoints with the API schema, parameter by parameter.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::endpoint::Endpoint;
use super::super::format::Format;
use super::super::property::{Property, Schema, ValueCheck};
use super::permission;
use super::schema_files::{ApiSchema, FormatSchema, enumeration, is_true, limit, pattern};

/// Differences between a simulated endpoint and the schema.
pub(super) fn differences(facts: &ApiSchema, endpoint: &Endpoint) -> Vec<String> {
    let place = format!("{} {} {}", facts.release, endpoint.method.name(), endpoint.path);
    let Some(method) = facts.method(endpoint) else {
        return vec![format!("{place}: is not in the schema")];
    };
    let mut found = Differences(Vec::new());
    let token = is_true(&method.0["allowtoken"]);
    found.unless_equal(&place, "allowtoken", &token, &endpoint.allow_token);
    let proxied = method.0["proxyto"].as_str() == Some("node");
    found.unless_equal(&place, "proxyto", &proxied, &endpoint.proxied);
    found.unless_equal(&place, "additionalProperties", &method.is_open(), &endpoint.open);
    let wanted = permission::of(&method.0["permissions"]);
    found.unless_equal(&place, "permissions", &wanted, &endpoint.permission);

    let names: BTreeSet<String> = method.properties().keys().cloned().collect();
    found.names(&place, &names, &names_of(&endpoint.parameters));
    for (name, property) in method.properties() {
        if let Some(own) = lookup(&endpoint.parameters, name) {
            found.property(facts, &format!("{place} {name}"), property, own);
        }
    }
    found.0
}

fn names_of(schema: &Schema) -> BTreeSet<String> {
    let plain = schema.plain.keys().map(|name| (*name).to_owned());
    plain.chain(schema.numbered.keys().map(|name| format!("{name}[n]"))).collect()
}

fn lookup<'a>(schema: &'a Schema, name: &str) -> Option<&'a Property> {
    match name.strip_suffix("[n]") {
        Some(family) => schema.numbered.get(family).map(|(_, property)| property),
        None => schema.plain.get(name),
    }
}

/// Differences found by a comparison, one text each.
struct Differences(Vec<String>);

impl Differences {
    fn unless_equal<T: PartialEq + std::fmt::Debug>(
        &mut self,
        place: &str,
        what: &str,
        expected: &T,
        own: &T,
    ) {
        if expected != own {
            self.0.push(format!("{place}: {what} is {expected:?}, not {own:?}"));
        }
    }

    fn names(&mut self, place: &str, expected: &BTreeSet<String>, own: &BTreeSet<String>) {
        let missing = expected.difference(own).map(|name| format!("{place} {name}: is missing"));
        let extra =
            own.difference(expected).map(|name| format!("{place} {name}: is not in the schema"));
        self.0.extend(missing.chain(extra));
    }

    fn property(&mut self, facts: &ApiSchema, place: &str, expected: &Value, own: &Property) {
        let kind = expected["type"].as_str().unwrap();
        self.unless_equal(place, "type", &kind, &own.kind.name());
        let required = !expected.get("optional").is_some_and(is_true);
        self.unless_equal(place, "required", &required, &own.required);
        self.unless_equal(place, "minimum", &limit(expected, "minimum"), &own.least);
        self.unless_equal(place, "maximum", &limit(expected, "maximum"), &own.most);
        let length = |name| limit(expected, name).map(|length| usize::try_from(length).unwrap());
        self.unless_equal(place, "minLength", &length("minLength"), &own.shortest);
        self.unless_equal(place, "maxLength", &length("maxLength"), &own.longest);
        let values = own.one_of.as_ref().map(|values| values.iter().map(String::as_str).collect());
        self.unless_equal(place, "enum", &enumeration(expected), &values);
        let own_pattern = own.pattern.as_ref().map(|pattern| pattern.source.to_owned());
        self.unless_equal(place, "pattern", &pattern(expected), &own_pattern);
        let requires = expected.get("requires").map(|name| name.as_str().unwrap());
        self.unless_equal(place, "requires", &requires, &own.requires);
        let default_key = expected.get("default_key").is_some_and(is_true);
        self.unless_equal(place, "default_key", &default_key, &own.default_key);
        if let (Some(expected), Some(own)) = (expected.get("items"), &own.items) {
            // The schema marks every list item as required, so the definition of the lab is compared as required.
            let own = (**own).clone().required();
            self.property(facts, &format!("{place}[]"), expected, &own);
        } else {
            let items = expected.get("items").is_some();
            self.unless_equal(place, "items", &items, &own.items.is_some());
        }
        self.rule(facts, place, expected, own.rule.as_ref());
    }

    fn rule(&mut self, facts: &ApiSchema, place: &str, expected: &Value, own: Option<&ValueCheck>) {
        let own_name = match own {
            None => String::new(),
            Some(ValueCheck::Value(value_format)) => value_format.name.to_owned(),
            Some(ValueCheck::Each(value_format)) => format!("{}-list", value_format.name),
            Some(ValueCheck::UnlessEmpty(value_format)) => format!("{}-opt", value_format.name),
            Some(ValueCheck::Format(format)) => format!("{{{}}}", format.name.unwrap_or_default()),
        };
        let format = facts.format(expected);
        let name = match &format {
            None => String::new(),
            Some(FormatSchema::Named(name)) => (*name).to_owned(),
            Some(FormatSchema::Each(name)) => format!("{name}-list"),
            Some(FormatSchema::UnlessEmpty(name)) => format!("{name}-opt"),
            Some(FormatSchema::Properties(name, _)) => format!("{{{}}}", name.unwrap_or_default()),
        };
        self.unless_equal(place, "format", &name, &own_name);
        if let (Some(FormatSchema::Properties(_, keys)), Some(ValueCheck::Format(own))) =
            (format, own)
        {
            self.keys(facts, place, keys, own);
        }
    }

    fn keys(
        &mut self,
        facts: &ApiSchema,
        place: &str,
        expected: &serde_json::Map<String, Value>,
        own: &Format,
    ) {
        let mut names = names_of(&own.schema);
        names.extend(own.aliases.iter().map(|alias| alias.name.to_owned()));
        self.names(place, &expected.keys().cloned().collect(), &names);
        for (key, property) in expected {
            let place = format!("{place}.{key}");
            let text = |name| property.get(name).map(|value| value.as_str().unwrap());
            let alias = own.aliases.iter().find(|alias| alias.name == key);
            self.unless_equal(&place, "alias", &text("alias"), &alias.map(|alias| alias.of));
            let key_alias = alias.and_then(|alias| alias.key);
            self.unless_equal(&place, "keyAlias", &text("keyAlias"), &key_alias);
            if let Some(own) = lookup(&own.schema, key) {
                self.property(facts, &place, property, own);
            }
        }
    }
}
