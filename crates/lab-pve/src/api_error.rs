use std::collections::BTreeMap;
use std::fmt;

/// API error with a status of 400 or above, a message, and the errors of single parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    pub(crate) status: u16,
    /// Message, without the newline that ends it in the response body.
    pub(crate) message: String,
    pub(crate) errors: BTreeMap<String, String>,
}

impl ApiError {
    pub(crate) fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), errors: BTreeMap::new() }
    }

    /// Error with status 500. Proxmox uses this status for most errors, including those of invalid requests.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(500, message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(403, message)
    }

    /// Error with status 400 about one parameter.
    pub(crate) fn parameter(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self::parameters(BTreeMap::from([(name.into(), text.into())]))
    }

    pub(crate) fn parameters(errors: BTreeMap<String, String>) -> Self {
        Self { status: 400, message: "Parameter verification failed.".to_owned(), errors }
    }
}

/// Formats the error as in a task log.
impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            500 => f.write_str(&self.message)?,
            status => write!(f, "{status} {}", self.message)?,
        }
        self.errors.iter().try_for_each(|(name, text)| write!(f, "\n{name}: {text}"))
    }
}
