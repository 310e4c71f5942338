use std::collections::BTreeMap;
use std::str::FromStr;

use serde_json::{Map, Value};

use super::{Unreadable, flag, number, text};
use crate::id::BadId;

/// Fields of an object in an answer.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    pub fn of(value: &'a Value) -> Result<Self, Unreadable> {
        value
            .as_object()
            .map(Self)
            .ok_or_else(|| Unreadable("the answer is not an object".to_owned()))
    }

    /// Value of a field. A `null` counts as absent.
    pub fn value(self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// Fields of a nested object, if present.
    pub fn inner(self, key: &str) -> Option<Self> {
        self.value(key)?.as_object().map(Self)
    }

    pub fn text(self, key: &str) -> Option<String> {
        self.value(key).and_then(text)
    }

    pub fn need_text(self, key: &str) -> Result<String, Unreadable> {
        self.text(key).ok_or_else(|| Unreadable(format!("`{key}` is missing")))
    }

    /// Required text that is parsed into a checked type, such as an ID.
    pub fn need<T: FromStr<Err = BadId>>(self, key: &str) -> Result<T, Unreadable> {
        Ok(self.need_text(key)?.parse()?)
    }

    /// Optional text that is parsed into a checked type. An empty text counts as absent.
    pub fn id<T: FromStr<Err = BadId>>(self, key: &str) -> Result<Option<T>, Unreadable> {
        let text = self.text(key).filter(|text| !text.is_empty());
        Ok(text.map(|text| text.parse()).transpose()?)
    }

    pub fn number(self, key: &str) -> Option<u64> {
        self.value(key).and_then(number)
    }

    /// Fraction or load; `None` if the field is absent or not a number.
    pub fn fraction(self, key: &str) -> Option<f64> {
        self.text(key)?.trim().parse().ok().filter(|number: &f64| number.is_finite())
    }

    /// Value of a flag. An absent flag is not set.
    pub fn flag(self, key: &str) -> bool {
        self.value(key).and_then(flag).unwrap_or_default()
    }

    /// List of texts. In the answer it is a JSON list, or a text separated by commas, semicolons or blanks.
    pub fn list(self, key: &str) -> Vec<String> {
        match self.value(key) {
            Some(Value::Array(items)) => items.iter().filter_map(text).collect(),
            Some(other) => split(&text(other).unwrap_or_default()),
            None => vec![],
        }
    }

    /// Objects in the list at this key.
    pub fn objects(self, key: &str) -> impl Iterator<Item = Self> {
        let items = self.value(key).and_then(Value::as_array);
        items.into_iter().flatten().filter_map(|item| item.as_object().map(Self))
    }

    /// All scalar fields as texts.
    pub fn texts(self) -> BTreeMap<String, String> {
        let text = |(key, value): (&String, &Value)| Some((key.clone(), text(value)?));
        self.0.iter().filter_map(text).collect()
    }

    pub fn iter(self) -> impl Iterator<Item = (&'a String, &'a Value)> {
        self.0.iter()
    }
}

/// Splits a text into a list as Proxmox does.
pub(crate) fn split(text: &str) -> Vec<String> {
    let is_gap = |c: char| matches!(c, ',' | ';' | '\0') || c.is_whitespace();
    text.split(is_gap).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::id::VmId;

    #[test]
    fn fields_may_be_absent_null_or_of_another_type() {
        let value = json!({
            "vmid": "300", "name": null, "mem": "12", "cpu": "0.5", "template": "", "tags": "b; a,c",
            "vms": [100, "101"], "list": [{"a": 1}, 5], "inner": {"managed": 1},
        });
        let fields = Fields::of(&value).unwrap();
        assert_eq!(fields.need::<VmId>("vmid").unwrap().get(), 300);
        assert_eq!(fields.text("name"), None);
        assert_eq!(fields.need_text("name"), Err(Unreadable("`name` is missing".to_owned())));
        assert_eq!(fields.number("mem"), Some(12));
        assert_eq!(fields.fraction("cpu"), Some(0.5));
        assert!(!fields.flag("template") && !fields.flag("absent"));
        assert_eq!(fields.list("tags"), ["b", "a", "c"]);
        assert_eq!(fields.list("vms"), ["100", "101"]);
        assert_eq!(fields.objects("list").count(), 1);
        assert!(fields.inner("inner").unwrap().flag("managed"));
        assert!(fields.id::<VmId>("absent").unwrap().is_none());
        assert!(Fields::of(&json!(null)).is_err());
    }
}
