//! Why an object could not be observed.

use std::fmt;

use serde::{Serialize, Serializer};

/// An answer of an API, or the reason why the object could not be observed.
pub type Answer<T> = Result<T, Unobserved>;

/// Why an object could not be observed, with the text of the error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unobserved {
    /// The API reports that the object does not exist.
    Absent(String),
    /// The API answered, but denied access or sent an unclear answer.
    Unreadable(String),
    /// The host or the API did not answer.
    Unreachable(String),
}

impl Unobserved {
    /// Whether the object may exist. An object that is unreadable or unreachable counts as existing, so that talmox does not
    /// create a second one.
    pub fn may_exist(&self) -> bool {
        match self {
            Self::Absent(_) => false,
            Self::Unreadable(_) | Self::Unreachable(_) => true,
        }
    }

    /// Text of the error.
    pub fn reason(&self) -> &str {
        match self {
            Self::Absent(reason) | Self::Unreadable(reason) | Self::Unreachable(reason) => reason,
        }
    }
}

impl fmt::Display for Unobserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for Unobserved {}

/// An error is serialized as its text.
impl Serialize for Unobserved {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.reason())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_object_that_the_api_reports_as_absent_does_not_exist() {
        let text = || "text".to_owned();
        assert!(!Unobserved::Absent(text()).may_exist());
        assert!(Unobserved::Unreadable(text()).may_exist());
        assert!(Unobserved::Unreachable(text()).may_exist());
        assert_eq!(Unobserved::Unreachable(text()).to_string(), "text");
        assert_eq!(serde_json::json!(Unobserved::Absent(text())), "text");
    }
}
