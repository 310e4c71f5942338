//! Words and shapes that many answers share.

use serde_json::{Value as Json, json};

use crate::Refusal;
use crate::call::{Outcome, Reply};

/// What goes wrong while a configuration file is locked is told with what was tried, and as 500
/// whatever it was.
pub(super) fn within<T>(attempt: &str, result: Result<T, Refusal>) -> Result<T, Refusal> {
    result.map_err(|refusal| Refusal::failed(format!("{attempt}: {refusal}")))
}

/// Flags are numbers in the answers.
pub(super) fn flag(value: bool) -> Json {
    json!(u8::from(value))
}

pub(super) fn data(value: impl Into<Json>) -> Outcome {
    Ok(Reply::Data(value.into()))
}
