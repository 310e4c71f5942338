use std::collections::BTreeMap;
use std::fmt;

/// An answer of 400 and above: the status, the text, and what is wrong with which parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub(crate) status: u16,
    /// Without the line end that the body has.
    pub(crate) message: String,
    pub(crate) errors: BTreeMap<String, String>,
}

impl Refusal {
    pub(crate) fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), errors: BTreeMap::new() }
    }

    /// 500: nearly everything that goes wrong, be it the caller's fault or not.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(500, message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(403, message)
    }

    /// 400: one parameter is wrong.
    pub(crate) fn parameter(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self::parameters(BTreeMap::from([(name.into(), text.into())]))
    }

    pub(crate) fn parameters(errors: BTreeMap<String, String>) -> Self {
        Self { status: 400, message: "Parameter verification failed.".to_owned(), errors }
    }
}

/// As a task shows it that met this refusal on its way.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            500 => f.write_str(&self.message)?,
            status => write!(f, "{status} {}", self.message)?,
        }
        self.errors.iter().try_for_each(|(name, text)| write!(f, "\n{name}: {text}"))
    }
}
