//! Properties of the types, and comparisons of VM configs with vectors of the real implementation.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![expect(clippy::disallowed_methods, reason = "external data is given by environment variables")]

mod property_strings;
mod vectors;
