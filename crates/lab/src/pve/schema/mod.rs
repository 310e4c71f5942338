//! What callers may send: parameters, their types and limits, and the words for what is wrong.

use std::collections::BTreeMap;

/// What a caller sent, verified.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters(BTreeMap<String, String>);
