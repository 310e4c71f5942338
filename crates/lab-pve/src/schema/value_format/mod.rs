//! Formats of parameter values that functions check: names, ids and addresses.
//!
//! The error texts have no newline at the end. The caller adds it.

mod access;
mod address;
mod guest;
mod id;
mod storage;

pub(crate) use access::*;
pub(crate) use address::*;
pub(crate) use guest::*;
pub(crate) use id::*;
pub(crate) use storage::*;

use crate::Release;

/// Format of a parameter value: its name in the API schema and its check.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueFormat {
    /// Name of the format in the API schema.
    pub(crate) name: &'static str,
    pub(crate) check: fn(&str, Release) -> Result<(), String>,
}

/// Returns `Ok` if the condition is true, otherwise the error text.
fn expect(holds: bool, complaint: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(complaint.into()) }
}
