//! Comments, for those who must keep them.

use crate::tree::Span;

/// A comment and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// What follows the `#`, leading blanks included.
    pub text: String,
    pub span: Span,
    /// How many characters stand before the `#` on its line.
    pub column: usize,
    /// Nothing but blanks stands before it on its line.
    pub own_line: bool,
}

impl Comment {
    pub(crate) fn at(source: &str, text: &str, span: Span) -> Self {
        let before = source.get(..span.start).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        Self {
            text: text.trim_end_matches('\r').to_owned(),
            span,
            column: line.chars().count(),
            own_line: line.trim().is_empty(),
        }
    }
}
