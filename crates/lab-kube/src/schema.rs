//! Validation of custom objects by the schema of their CustomResourceDefinition. The validation covers types, required fields,
//! enums, and limits of size, length and number. It does not cover patterns, formats, CEL rules and combined schemas.

use serde_json::Value;

use super::failure::Failure;
use super::kind::Kind;
use super::object::{self, flag, list, text};

/// Fills in the defaults that the schema defines.
pub(super) fn complete(kind: &Kind, object: &mut Value) {
    if let Some(schema) = kind.schemas.get(&kind.versions[0]) {
        default(schema, object);
    }
}

fn default(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
                if map.get(key).is_some_and(Value::is_null) && !flag(inner, "/nullable") {
                    map.shift_remove(key);
                }
                if let (Some(given), false) = (inner.get("default"), map.contains_key(key)) {
                    map.insert(key.clone(), given.clone());
                }
                if let Some(value) = map.get_mut(key) {
                    default(inner, value);
                }
            }
            if let Some(inner) = schema.get("additionalProperties") {
                let is_other = |key: &str| schema["properties"].get(key).is_none();
                let others = map.iter_mut().filter(|(key, _)| is_other(key));
                others.for_each(|(_, value)| default(inner, value));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| default(&schema["items"], item)),
        _ => {}
    }
}

/// Rejects an object that does not match the schema.
pub(super) fn check(kind: &Kind, object: &Value) -> Result<(), Failure> {
    let Some(schema) = kind.schemas.get(&kind.versions[0]) else { return Ok(()) };
    let mut problems = Problems::default();
    problems.validate(schema, object, "", "");
    Failure::unless_valid(kind, object::name(object), &problems.0)
}

/// Rejects an object whose status does not match the schema.
pub(super) fn check_status(kind: &Kind, object: &Value) -> Result<(), Failure> {
    let schema =
        kind.schemas.get(&kind.versions[0]).and_then(|all| all.pointer("/properties/status"));
    let Some(schema) = schema else { return Ok(()) };
    let mut problems = Problems::default();
    problems.validate(schema, &object["status"], "status", "");
    Failure::unless_valid(kind, object::name(object), &problems.0)
}

/// Field and text of each validation error.
#[derive(Default)]
struct Problems(Vec<(String, String)>);

impl Problems {
    fn say(&mut self, field: &str, problem: String) {
        self.0.push((field.to_owned(), problem));
    }

    /// Validates a value. `field` is the path of the value in the object, `inside` is its path relative to the schema. Messages
    /// contain both.
    fn validate(&mut self, schema: &Value, value: &Value, field: &str, inside: &str) {
        if value.is_null() && flag(schema, "/nullable") {
            return;
        }
        let wanted = match text(schema, "/type") {
            _ if flag(schema, "/x-kubernetes-int-or-string") => "integer,string",
            wanted => wanted,
        };
        let found = type_of(value);
        let fits = wanted.is_empty()
            || wanted.split(',').any(|wanted| wanted == found)
            || (wanted == "number" && found == "integer");
        if !fits {
            let problem = format!(
                "Invalid value: \"{found}\": {inside} in body must be of type {wanted}: \"{found}\""
            );
            return self.say(field, problem);
        }
        let choice = list(schema, "/enum");
        if !choice.is_empty() && !choice.contains(value) {
            let all: Vec<String> = choice.iter().map(|one| format!("{:?}", plain(one))).collect();
            let all = all.join(", ");
            return self.say(field, format!("Unsupported value: {value}: supported values: {all}"));
        }
        match value {
            Value::Object(map) => {
                for key in list(schema, "/required").iter().filter_map(Value::as_str) {
                    if !map.contains_key(key) {
                        self.say(&join(field, key), "Required value".to_owned());
                    }
                }
                for (key, value) in map {
                    let known = schema["properties"].get(key);
                    let inner = known.or_else(|| schema.get("additionalProperties"));
                    if let Some(inner) = inner.filter(|inner| inner.is_object()) {
                        self.validate(inner, value, &join(field, key), &join(inside, key));
                    }
                }
            }
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    let (field, inside) = (format!("{field}[{at}]"), format!("{inside}[{at}]"));
                    self.validate(&schema["items"], item, &field, &inside);
                }
                self.check_count(schema, items.len(), field, inside);
            }
            Value::String(text) => self.check_length(schema, text, field, inside),
            Value::Number(_) => self.check_limits(schema, value, field, inside),
            _ => {}
        }
    }

    fn check_count(&mut self, schema: &Value, count: usize, field: &str, inside: &str) {
        let limit = |key: &str| schema[key].as_u64().and_then(|limit| usize::try_from(limit).ok());
        if let Some(most) = limit("maxItems").filter(|most| count > *most) {
            self.say(field, format!("Too many: {count}: must have at most {most} items"));
        }
        if let Some(least) = limit("minItems").filter(|least| count < *least) {
            let rule = format!("{inside} in body should have at least {least} items");
            self.say(field, format!("Invalid value: {count}: {rule}"));
        }
    }

    fn check_length(&mut self, schema: &Value, value: &str, field: &str, inside: &str) {
        let length = value.chars().count() as u64;
        if let Some(most) = schema["maxLength"].as_u64().filter(|most| length > *most) {
            self.say(field, format!("Too long: may not be more than {most} bytes"));
        } else if let Some(least) = schema["minLength"].as_u64().filter(|least| length < *least) {
            let rule = format!("{inside} in body should be at least {least} chars long");
            self.say(field, format!("Invalid value: {value:?}: {rule}"));
        }
    }

    fn check_limits(&mut self, schema: &Value, value: &Value, field: &str, inside: &str) {
        let Some(number) = value.as_f64() else { return };
        let (least, most) = (&schema["minimum"], &schema["maximum"]);
        let rule = match (least.as_f64(), most.as_f64()) {
            (_, Some(limit)) if flag(schema, "/exclusiveMaximum") && number >= limit => {
                format!("less than {most}")
            }
            (_, Some(limit)) if number > limit => format!("less than or equal to {most}"),
            (Some(limit), _) if flag(schema, "/exclusiveMinimum") && number <= limit => {
                format!("greater than {least}")
            }
            (Some(limit), _) if number < limit => format!("greater than or equal to {least}"),
            _ => return,
        };
        self.say(field, format!("Invalid value: {value}: {inside} in body should be {rule}"));
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Type name of a value, as in schemas.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) => {
            let is_whole = number.as_f64().is_some_and(|number| number.fract() == 0.0);
            if is_whole { "integer" } else { "number" }
        }
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schema_defaults_are_filled_in_and_null_is_not_a_value() {
        let schema = json!({"type": "object", "properties": {
            "mode": {"type": "string", "default": "a"},
            "gone": {"type": "string"},
            "kept": {"type": "string", "nullable": true},
            "deep": {"type": "array", "items": {"properties": {"x": {"default": 1}}}},
        }});
        let mut object = json!({"gone": null, "kept": null, "deep": [{}]});
        default(&schema, &mut object);
        assert_eq!(object, json!({"kept": null, "deep": [{"x": 1}], "mode": "a"}));
    }
}
