//! Kubernetes taints, in the notation of kubectl.

use std::fmt;

use serde_json::{Value as Json, json};
use talmox_yaml::Scalar;

use crate::language::Leaf;

/// Taint `key=value:Effect` or `key:Effect`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    pub key: String,
    pub value: Option<String>,
    pub effect: String,
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        if let Some(value) = &self.value {
            write!(f, "={value}")?;
        }
        write!(f, ":{}", self.effect)
    }
}

impl Leaf for Taint {
    const EXPECTED: &'static str = "a taint such as `gpu=true:NoSchedule`";

    fn parse(scalar: &Scalar) -> Result<Self, Option<String>> {
        let (rest, effect) = scalar.text.rsplit_once(':').ok_or(None)?;
        if !matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            return Err(Some(format!(
                "`{effect}` is not an effect: use NoSchedule, PreferNoSchedule or NoExecute"
            )));
        }
        let (key, value) = match rest.split_once('=') {
            Some((key, value)) => (key, Some(value.to_owned())),
            None => (rest, None),
        };
        if key.is_empty() {
            return Err(None);
        }
        Ok(Self { key: key.to_owned(), value, effect: effect.to_owned() })
    }

    fn schema() -> Json {
        json!({ "type": "string", "pattern": "^[^=:]+(=[^:]*)?:(NoSchedule|PreferNoSchedule|NoExecute)$" })
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_are_parsed_in_kubectl_notation() {
        let parse =
            |text: &str| Taint::parse(&Scalar { text: text.to_owned(), ..Scalar::default() });
        for good in ["gpu=true:NoSchedule", "dedicated:NoExecute", "a/b=:PreferNoSchedule"] {
            assert_eq!(parse(good).unwrap().to_string(), good);
        }
        for bad in ["gpu", "gpu=true", "gpu:Never", ":NoSchedule"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
