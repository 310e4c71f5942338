//! Formats that need code: names, ids, addresses, and what else no pattern says.
//!
//! A complaint has no line end; whoever shows it adds one.

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

/// One such format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code {
    /// As the API calls it.
    pub(crate) name: &'static str,
    pub(crate) check: fn(&str, Release) -> Result<(), String>,
}

/// `Ok` if something holds, else the complaint.
fn expect(holds: bool, complaint: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(complaint.into()) }
}
