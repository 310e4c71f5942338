//! Index answers: the names below an API path.

use serde_json::{Value as Json, json};

use super::reply::data;
use crate::call::Outcome;

/// Index with one entry per name, under the given key (`name`, `id` or `subdir`).
pub(super) fn of(key: &str, names: &[&str]) -> Outcome {
    data(names.iter().map(|name| json!({ key: name })).collect::<Vec<Json>>())
}
