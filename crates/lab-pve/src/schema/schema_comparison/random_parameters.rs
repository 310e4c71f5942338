//! Random parameters that are generated from the schema: mostly valid, often at a limit, sometimes invalid.

use std::collections::BTreeMap;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Map, Value, json};
use talmox_clock::Chance;

use super::format_samples::samples;
use super::schema_files::{
    ApiSchema, FormatSchema, MethodSchema, enumeration, is_true, limit, pattern,
};

/// Parameters for a call: the required parameters, the tested parameter, and some others.
pub(super) fn parameters(
    facts: &ApiSchema,
    method: &MethodSchema<'_>,
    in_question: &str,
    chance: Chance,
) -> BTreeMap<String, Value> {
    let mut maker = ParameterGenerator { facts, chance };
    let schema = method.properties();
    let mut given = BTreeMap::new();
    for (name, property) in schema {
        let required = !property.get("optional").is_some_and(is_true);
        let wanted = schema[in_question].get("requires").is_some_and(|other| other == name);
        if name == in_question {
            given.insert(maker.name(name), maker.value(property));
        } else if (required || wanted) && !maker.one_in(20) {
            given.insert(maker.name(name), maker.good(property).into());
        } else if maker.one_in(1 + 2 * schema.len() as u64) {
            given.insert(maker.name(name), maker.value(property));
        }
    }
    if maker.one_in(20) {
        let name = maker.pick(&["bogus", "net", "scsi00", "net[n]", "numa", "Cores", ""]);
        given.insert(name.to_owned(), "1".into());
    }
    given
}

/// Generator of random parameters for an API schema.
struct ParameterGenerator<'a> {
    facts: &'a ApiSchema,
    chance: Chance,
}

impl ParameterGenerator<'_> {
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.chance.below(end as u64)).unwrap()
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.chance.below(many) == 0
    }

    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.below(from.len())]
    }

    fn name(&mut self, name: &str) -> String {
        match name.strip_suffix("[n]") {
            Some(family) => format!("{family}{}", self.below(3)),
            None => name.to_owned(),
        }
    }

    /// Random value of any JSON type for a property.
    fn value(&mut self, property: &Value) -> Value {
        if property["type"] == "array" {
            let items = property.get("items").unwrap();
            return match self.below(8) {
                0 => json!([]),
                1 => json!({}),
                2 => json!(true),
                3 => self.text(items).into(),
                4 => json!(""),
                count => (4..count).map(|_| Value::String(self.text(items))).collect(),
            };
        }
        let text = self.text(property);
        match self.below(30) {
            0 => json!(true),
            1 => json!(false),
            2 => json!({"a": 1}),
            3 => Value::Null,
            4 => json!([text]),
            5 => json!([self.text(property), text]),
            6..10 => text.parse::<i64>().map_or_else(|_| json!(text), |number| json!(number)),
            _ => json!(text),
        }
    }

    /// Random text for a parameter: valid by the schema, or with a small error.
    fn text(&mut self, property: &Value) -> String {
        let good = self.good(property);
        match self.below(10) {
            0 => self.at_the_limit(property),
            1 => self.corrupted(&good),
            2 => self
                .pick(&["", "0", "1", "x", "on", "1.5", "-1", " 1", "1 ", "1e3", "a=b", ","])
                .to_owned(),
            3 => match self.facts.format(property) {
                Some(FormatSchema::Named(name) | FormatSchema::UnlessEmpty(name)) => {
                    let [_, bad] = samples(name, self.facts.release);
                    if bad.is_empty() { good } else { self.pick(bad).to_owned() }
                }
                Some(FormatSchema::Each(name)) => {
                    let [_, bad] = samples(name, self.facts.release);
                    if bad.is_empty() { good } else { format!("{good},{}", self.pick(bad)) }
                }
                _ => good,
            },
            _ => good,
        }
    }

    fn corrupted(&mut self, good: &str) -> String {
        match self.below(6) {
            0 => format!("{good}x"),
            1 => format!("!{good}"),
            2 => good.chars().skip(1).collect(),
            3 => good.to_uppercase(),
            4 => format!("{good}\n"),
            _ => format!("{good},{good}"),
        }
    }

    fn at_the_limit(&mut self, property: &Value) -> String {
        let step = i64::try_from(self.below(3)).unwrap() - 1;
        let limits = ["minimum", "maximum", "minLength", "maxLength"];
        let limits: Vec<_> = limits.iter().filter(|name| property.get(**name).is_some()).collect();
        if limits.is_empty() {
            return self.good(property);
        }
        let name = *limits[self.below(limits.len())];
        let value = limit(property, name).unwrap() + step;
        if name.ends_with("Length") {
            return "a".repeat(usize::try_from(value).unwrap_or(0));
        }
        if property["type"] == "number" && self.one_in(2) {
            format!("{value}.5")
        } else {
            value.to_string()
        }
    }

    fn good(&mut self, property: &Value) -> String {
        if let Some(values) = enumeration(property) {
            return self.pick(&values).to_owned();
        }
        match self.facts.format(property) {
            Some(FormatSchema::Named(name) | FormatSchema::UnlessEmpty(name)) => {
                let [good, _] = samples(name, self.facts.release);
                return self.pick(good).to_owned();
            }
            Some(FormatSchema::Each(name)) => {
                let [good, _] = samples(name, self.facts.release);
                let count = self.below(4);
                let items: Vec<&str> = (0..count).map(|_| self.pick(good)).collect();
                return items.join(self.pick(&[",", ";", " ", ", ", ",,"]));
            }
            Some(FormatSchema::Properties(_, keys)) => return self.properties(keys),
            None => {}
        }
        if let Some(pattern) = pattern(property) {
            return self.like(&pattern);
        }
        let (least, most) = (limit(property, "minimum"), limit(property, "maximum"));
        let number = || {
            let least = least.unwrap_or(0);
            (least, most.unwrap_or(least + 5000))
        };
        match property["type"].as_str().unwrap_or("string") {
            "boolean" => self.pick(&["0", "1"]).to_owned(),
            "integer" | "number" => {
                let (least, most) = number();
                let span = u64::try_from(most - least).unwrap() + 1;
                (least + i64::try_from(self.chance.below(span)).unwrap()).to_string()
            }
            _ => {
                let least = limit(property, "minLength").unwrap_or(0);
                let words =
                    ["host", "text", "a b", "with, comma", "ümlaut", "0", "kvm64", "x86-64-v2-AES"];
                let word = self.pick(&words);
                word.repeat(1 + usize::try_from(least).unwrap() / word.chars().count())
            }
        }
    }

    /// Random text that matches a pattern.
    fn like(&mut self, pattern: &str) -> String {
        let mut seed = [0; 32];
        self.chance.fill(&mut seed);
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let free: String = pattern.replace("[^", "[!").replace(['^', '$'], "").replace("[!", "[^");
        let strategy = proptest::string::string_regex(&free).unwrap();
        strategy.new_tree(&mut runner).unwrap().current()
    }

    fn properties(&mut self, keys: &Map<String, Value>) -> String {
        let mut parts = Vec::new();
        for (key, property) in keys {
            let target = match property.get("alias") {
                Some(alias) => &keys[alias.as_str().unwrap()],
                None => property,
            };
            let is_alias = property.get("alias").is_some();
            let required = !is_alias && !property.get("optional").is_some_and(is_true);
            let take =
                if required { !self.one_in(8) } else { self.one_in(2 + keys.len() as u64 / 4) };
            if !take {
                continue;
            }
            let mut value = if self.one_in(6) { self.text(target) } else { self.good(target) };
            if target["type"] == "boolean" && self.one_in(3) {
                value = self.pick(&["on", "off", "Yes", "no", "TRUE", "false", "maybe"]).to_owned();
            }
            let bare = property.get("default_key").is_some() && !self.one_in(3);
            parts.push(if bare { value } else { format!("{key}={value}") });
        }
        match self.below(25) {
            0 => parts.push("bogus=1".to_owned()),
            1 => parts.push("bare".to_owned()),
            2 => parts.extend(parts.first().cloned()),
            3 => parts.push(String::new()),
            4 => parts.push("=x".to_owned()),
            _ => {}
        }
        parts.join(",")
    }
}
