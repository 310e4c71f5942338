//! JSON form of VM options: an object whose keys are the names of the options in Proxmox.
//!
//! Options that are numbers or flags are JSON numbers, as in the answers of Proxmox. All other options are texts.

use std::collections::BTreeMap;

use serde::de::Deserializer;
use serde::ser::{Error as _, SerializeMap as _, Serializer};
use serde::{Deserialize, Serialize};

use super::options::VmOptions;
use super::rule::{self, ComparisonRule};
use crate::secret_parameter::is_secret;

/// Value of an option that is a number or a flag. `None` for other options, and for a value that Proxmox would write in
/// another form.
pub fn option_number(key: &str, value: &str) -> Option<u64> {
    let is_number = key == "memory"
        || matches!(rule::of(key), ComparisonRule::Number(_) | ComparisonRule::Flag(_));
    let number = value.parse::<u64>().ok().filter(|_| is_number)?;
    (number.to_string() == value).then_some(number)
}

impl Serialize for VmOptions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in self.iter() {
            if is_secret(key) {
                return Err(S::Error::custom(format!("the option `{key}` is a secret")));
            }
            match option_number(key, value) {
                Some(number) => map.serialize_entry(key, &number)?,
                None => map.serialize_entry(key, value)?,
            }
        }
        map.end()
    }
}

/// Value of an option in JSON.
#[derive(Deserialize)]
#[serde(untagged)]
enum OptionValue {
    Number(u64),
    Text(String),
}

impl<'de> Deserialize<'de> for VmOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = BTreeMap::<String, OptionValue>::deserialize(deserializer)?;
        let text = |value: OptionValue| match value {
            OptionValue::Number(number) => number.to_string(),
            OptionValue::Text(text) => text,
        };
        Ok(Self(values.into_iter().map(|(key, value)| (key, text(value))).collect()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use talmox_values::SecretText;

    #[test]
    fn numbers_and_flags_are_numbers() {
        let options = VmOptions::new().cores(4).memory_mib(8192).onboot(true).name("7").cpu("host");
        let form = json!({"cores": 4, "cpu": "host", "memory": 8192, "name": "7", "onboot": 1});
        assert_eq!(serde_json::to_value(&options).unwrap(), form);
        assert_eq!(serde_json::from_value::<VmOptions>(form).unwrap(), options);
        assert_eq!(option_number("memory", "current=8192"), None);
        assert_eq!(option_number("cores", "04"), None);
    }

    #[test]
    fn a_secret_has_no_json_form() {
        let options = VmOptions::new().cipassword(&SecretText::new("hunter2"));
        let error = serde_json::to_string(&options).unwrap_err().to_string();
        assert!(error.contains("cipassword") && !error.contains("hunter2"), "{error}");
    }
}
