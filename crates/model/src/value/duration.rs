//! Durations such as `90s`, `5m`, `1h30m`.

use std::fmt;

use serde_json::{Value as Json, json};
use talmox_yaml::Scalar;

use crate::language::Leaf;

/// Duration in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(std::time::Duration);

impl Duration {
    pub fn get(self) -> std::time::Duration {
        self.0
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        for (count, unit) in [(seconds / 3600, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")]
        {
            if count > 0 {
                write!(f, "{count}{unit}")?;
            }
        }
        Ok(())
    }
}

impl Leaf for Duration {
    const EXPECTED: &'static str = "a duration such as `90s`, `5m` or `1h30m`";

    fn parse(scalar: &Scalar) -> Result<Self, Option<String>> {
        let mut rest = scalar.text.as_str();
        let mut seconds: u64 = 0;
        if rest.is_empty() {
            return Err(None);
        }
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let number: u64 = rest[..digits].parse().map_err(|_| None)?;
            let (factor, length) = match &rest.as_bytes()[digits..] {
                [b'd', ..] => (86_400, 1),
                [b'h', ..] => (3600, 1),
                [b'm', b's', ..] => {
                    return Err(Some("whole seconds are the smallest unit".to_owned()));
                }
                [b'm', ..] => (60, 1),
                [b's', ..] => (1, 1),
                [] => return Err(Some("the unit is missing: `s`, `m`, `h` or `d`".to_owned())),
                _ => return Err(None),
            };
            seconds = number
                .checked_mul(factor)
                .and_then(|more| seconds.checked_add(more))
                .filter(|seconds| *seconds <= 100 * 366 * 86_400)
                .ok_or_else(|| Some("the duration is longer than a hundred years".to_owned()))?;
            rest = &rest[digits + length..];
        }
        if seconds == 0 {
            return Err(Some("the duration is zero".to_owned()));
        }
        Ok(Self(std::time::Duration::from_secs(seconds)))
    }

    fn schema() -> Json {
        json!({ "type": "string", "pattern": "^(?=.*[1-9])([0-9]+[dhms])+$" })
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_and_displayed() {
        let parse =
            |text: &str| Duration::parse(&Scalar { text: text.to_owned(), ..Scalar::default() });
        assert_eq!(parse("1h30m").unwrap().get().as_secs(), 5400);
        assert_eq!(parse("90s").unwrap().to_string(), "1m30s");
        assert_eq!(parse("2d").unwrap().to_string(), "48h");
        for bad in [
            "",
            "m",
            "0s",
            "0h0m",
            "5",
            "5x",
            "5ms",
            "-5m",
            "99999999999999999999h",
            "999999d999999d",
            "5ä",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
