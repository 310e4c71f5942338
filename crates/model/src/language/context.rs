//! State of reading one file: its source text and the collected findings.

use talmox_yaml::Node;

use super::secrecy;
use crate::diagnostic::{Code, Diagnostic, Findings};
use crate::source::{SourceId, Sources, Span};

/// Collector of findings while one file is read.
pub(crate) struct Context<'a> {
    pub(crate) source: SourceId,
    pub(crate) sources: &'a mut Sources,
    pub(crate) findings: &'a mut Findings,
}

/// Key of a value, with its text and its position.
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
        self.findings.push(diagnostic);
    }

    /// Reports a value of the wrong type. If `expected` contains "such as …", the example becomes the hint.
    pub(crate) fn wrong_type(&mut self, node: &Node, expected: &str) {
        let hint = match expected.split_once(" such as ") {
            Some((_, example)) => format!("write it as {example}"),
            None => format!("write {expected}"),
        };
        self.unexpected(node, expected, hint);
    }

    /// Reports a word that is not allowed but is similar to the allowed word `near`.
    pub(crate) fn wrong_word(&mut self, node: &Node, expected: &str, near: &str) {
        self.unexpected(node, expected, format!("did you mean `{near}`?"));
    }

    fn unexpected(&mut self, node: &Node, expected: &str, hint: String) {
        let span = self.span(node);
        let found = match node.as_str() {
            _ if self.is_hidden(node) => "something else (not shown)".to_owned(),
            Some("") if !node.is_null() => "empty text".to_owned(),
            Some(text) if !node.is_null() => format!("`{}`", excerpt(text)),
            _ => node.describe().to_owned(),
        };
        let expected = expected.split_once(" such as ").map_or(expected, |(what, _)| what);
        let message = format!("expected {expected}, found {found}");
        self.report(Diagnostic::error(Code::WrongType, message).at(span).hint(hint));
    }

    /// Reports a value that has the right type but is invalid.
    pub(crate) fn bad_value(&mut self, node: &Node, problem: String, expected: &str) {
        let tells = self.is_hidden(node)
            && node.as_str().is_some_and(|text| secrecy::repeats(&problem, text));
        let problem = if tells { "the value (not shown) is not valid".to_owned() } else { problem };
        let span = self.span(node);
        let diagnostic = Diagnostic::error(Code::BadValue, problem).at(span);
        self.report(diagnostic.hint(format!("expected {expected}")));
    }

    pub(crate) fn hide(&mut self, node: &Node) {
        let span = self.span(node);
        self.sources.hide(span);
    }

    fn is_hidden(&self, node: &Node) -> bool {
        self.sources.get(self.source).is_hidden(&self.span(node).range())
    }
}

/// Start of a text, short enough for a message.
pub(crate) fn excerpt(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let short: String = line.chars().take(60).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}
