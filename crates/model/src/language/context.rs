//! What reading needs besides the node at hand.

use talmox_yaml::Node;

use crate::diagnostic::{Code, Diagnostic};
use crate::source::{SourceId, Sources, Span};

/// Collects findings while one file is read.
pub(crate) struct Context<'a> {
    pub(crate) source: SourceId,
    pub(crate) sources: &'a mut Sources,
    pub(crate) diagnostics: &'a mut Vec<Diagnostic>,
}

/// The key under which a value stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'a> {
    pub(crate) written: &'a str,
    pub(crate) span: Span,
}

impl Context<'_> {
    pub(crate) fn span(&self, node: &Node) -> Span {
        Span::of(self.source, node.span)
    }

    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Something of another kind than what belongs here.
    pub(crate) fn wrong_type(&mut self, node: &Node, expected: &str) {
        let found = match node.as_str() {
            Some(text) if !node.is_null() => format!("`{}`", excerpt(text)),
            _ => node.describe().to_owned(),
        };
        let diagnostic =
            Diagnostic::error(Code::WrongType, format!("{found} does not belong here"));
        let span = self.span(node);
        self.report(diagnostic.at(span).hint(format!("expected {expected}")));
    }

    pub(crate) fn hide(&mut self, node: &Node) {
        let span = self.span(node);
        self.sources.hide(span);
    }
}

/// As much of a text as a message bears.
pub(crate) fn excerpt(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let short: String = line.chars().take(60).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}
