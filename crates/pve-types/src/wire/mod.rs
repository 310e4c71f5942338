//! Lenient decoding of answers.
//!
//! Depending on the version, Proxmox sends numbers as texts, texts as numbers and booleans in several forms, and omits
//! fields or the whole data. A missing required value is an [`Unreadable`] error.

mod fields;

use serde_json::Value;

use crate::id::{BadId, Upid};

pub use fields::Fields;
pub(crate) use fields::split;

/// Successful answer of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    pub data: Value,
    /// Total number of entries, in an answer that contains a part of a list.
    pub total: Option<u64>,
}

/// Error for an answer without the expected data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer cannot be read: {0}")]
pub struct Unreadable(pub String);

impl From<BadId> for Unreadable {
    fn from(bad: BadId) -> Self {
        Self(bad.to_string())
    }
}

/// Type that can be decoded from an answer.
pub trait Decode: Sized {
    fn decode(data: &Value) -> Result<Self, Unreadable>;

    fn decode_answer(answer: &Answer) -> Result<Self, Unreadable> {
        Self::decode(&answer.data)
    }
}

/// Answer of a call that returns no data.
impl Decode for () {
    fn decode(_data: &Value) -> Result<Self, Unreadable> {
        Ok(())
    }
}

impl<T: Decode> Decode for Vec<T> {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        match data {
            Value::Null => Ok(vec![]),
            Value::Array(items) => items.iter().map(T::decode).collect(),
            _ => Err(Unreadable("the answer is not a list".to_owned())),
        }
    }
}

impl Decode for Upid {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let text =
            text(data).ok_or_else(|| Unreadable("the answer contains no task id".to_owned()))?;
        Ok(text.parse()?)
    }
}

/// Text of a scalar; `None` for null, lists and objects.
pub fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(u8::from(*flag).to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Whole number in any notation. Fractions are truncated.
pub(crate) fn number(value: &Value) -> Option<u64> {
    let text = text(value)?;
    let text = text.trim();
    text.parse().ok().or_else(|| whole(text.parse().ok()?))
}

/// Whole part of a number in floating-point notation, such as `1e9`.
fn whole(number: f64) -> Option<u64> {
    // Up to this limit, a double represents every whole number exactly.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if !(0.0..=EXACT).contains(&number) {
        return None;
    }
    format!("{:.0}", number.trunc()).parse().ok()
}

/// Value of a flag in any notation; `None` if the value is not a flag.
pub(crate) fn flag(value: &Value) -> Option<bool> {
    match text(value)?.trim() {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scalars_are_decoded_in_any_notation() {
        assert_eq!(number(&json!("4096")), Some(4096));
        assert_eq!(number(&json!(4096)), Some(4096));
        assert_eq!(number(&json!(1.9)), Some(1));
        assert_eq!(number(&json!("1e3")), Some(1000));
        assert_eq!(number(&json!(u64::MAX)), Some(u64::MAX));
        for odd in [json!(-1), json!("x"), json!(null), json!([1]), json!(1e300)] {
            assert_eq!(number(&odd), None, "{odd}");
        }
        for yes in [json!(1), json!("1"), json!(true), json!("on")] {
            assert_eq!(flag(&yes), Some(true), "{yes}");
        }
        for no in [json!(0), json!("0"), json!(false), json!("")] {
            assert_eq!(flag(&no), Some(false), "{no}");
        }
        assert_eq!(flag(&json!("maybe")), None);
        assert_eq!(text(&json!(300)).as_deref(), Some("300"));
    }

    #[test]
    fn null_is_an_empty_list_but_not_a_task() {
        assert_eq!(Vec::<()>::decode(&json!(null)), Ok(vec![]));
        assert!(Vec::<()>::decode(&json!({})).is_err());
        assert!(Upid::decode(&json!(null)).is_err());
    }
}
