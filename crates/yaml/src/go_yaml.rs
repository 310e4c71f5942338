//! Detection of YAML that go-yaml rejects.

use crate::scalar::{Scalar, Style};

/// Position of a scalar: inside or outside of a flow collection, as key or as value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScalarContext {
    pub(crate) in_flow: bool,
    pub(crate) is_key: bool,
}

/// Reason why go-yaml rejects this scalar; `None` if go-yaml accepts it. `source` is the scalar in the source text.
pub(crate) fn rejection(
    scalar: &Scalar,
    source: &str,
    place: ScalarContext,
) -> Option<&'static str> {
    match scalar.style {
        Style::Plain if place.is_key && source.is_empty() => Some("did not find expected key"),
        // In a flow collection a colon ends the scalar before it, so go-yaml cannot read `[::1]` as an address.
        Style::Plain if place.in_flow && source.starts_with(':') => {
            Some("did not find expected node content")
        }
        Style::DoubleQuoted => unknown_escape(source),
        _ => None,
    }
}

/// Error for an escape that is valid in JSON but not in YAML 1.1.
fn unknown_escape(source: &str) -> Option<&'static str> {
    let mut rest = source;
    while let Some(at) = rest.find('\\') {
        let escape = &rest[at + 1..];
        if escape.starts_with('/') {
            return Some("found unknown escape character");
        }
        let code = escape.strip_prefix('u').and_then(|digits| digits.get(..4));
        let code = code.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        if code.is_some_and(|code| (0xd800..0xe000).contains(&code)) {
            return Some("found invalid Unicode character escape code");
        }
        // The character after the backslash is skipped, because it may be another backslash.
        rest = escape.get(1..).unwrap_or_default();
    }
    None
}
