//! Indexes: what lies below a path.

use serde_json::{Value as Json, json};

use super::reply::data;
use crate::call::Outcome;

/// One entry for each name, under the key that this index uses.
pub(super) fn of(key: &str, names: &[&str]) -> Outcome {
    data(names.iter().map(|name| json!({ key: name })).collect::<Vec<Json>>())
}
