use std::collections::BTreeMap;
use std::fmt;

/// API error (status 400 and above): status, message, and the errors of individual parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    pub(crate) status: u16,
    /// Message without the trailing newline of the response body.
    pub(crate) message: String,
    pub(crate) errors: BTreeMap<String, String>,
}

impl ApiError {
    pub(crate) fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), errors: BTreeMap::new() }
    }

    /// Status 500, which Proxmox uses for most errors, including invalid requests.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(500, message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(403, message)
    }

    /// Status 400 with the error of one parameter.
    pub(crate) fn parameter(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self::parameters(BTreeMap::from([(name.into(), text.into())]))
    }

    pub(crate) fn parameters(errors: BTreeMap<String, String>) -> Self {
        Self { status: 400, message: "Parameter verification failed.".to_owned(), errors }
    }
}

/// Text of the error in a task log.
impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            500 => f.write_str(&self.message)?,
            status => write!(f, "{status} {}", self.message)?,
        }
        self.errors.iter().try_for_each(|(name, text)| write!(f, "\n{name}: {text}"))
    }
}
