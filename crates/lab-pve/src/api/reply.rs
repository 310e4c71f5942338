//! Shared parts of API answers and errors.

use serde_json::{Value as Json, json};

use crate::ApiError;
use crate::call::{Outcome, Reply};

/// Prefixes an error with the failed operation, and sets its status to 500. Proxmox does this for errors that occur while a
/// config file is locked.
pub(super) fn prefix_error<T>(attempt: &str, result: Result<T, ApiError>) -> Result<T, ApiError> {
    result.map_err(|error| ApiError::failed(format!("{attempt}: {error}")))
}

/// Boolean in the form that Proxmox returns: `0` or `1`.
pub(super) fn flag(value: bool) -> Json {
    json!(u8::from(value))
}

pub(super) fn data(value: impl Into<Json>) -> Outcome {
    Ok(Reply::Data(value.into()))
}
