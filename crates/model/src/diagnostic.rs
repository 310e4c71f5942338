//! Findings about an inventory: severity, code, position, message and hint.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

pub use crate::diagnostic_code::Code;
use crate::source::Span;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Error,
    Warning,
}

/// Position in a file, with a text that is shown at this position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    pub span: Span,
    pub text: String,
}

/// Finding of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub severity: Severity,
    pub code: Code,
    pub message: String,
    /// Position of the problem; `None` for a finding about a whole cluster.
    pub primary: Option<Label>,
    /// Further positions that belong to the problem.
    pub related: Vec<Label>,
    pub hint: Option<String>,
}

impl Diagnostic {
    pub(crate) fn error(code: Code, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, message.into())
    }

    pub(crate) fn warning(code: Code, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, message.into())
    }

    fn new(severity: Severity, code: Code, message: String) -> Self {
        Self { severity, code, message, primary: None, related: vec![], hint: None }
    }

    pub(crate) fn at(mut self, span: impl Into<Option<Span>>) -> Self {
        self.primary = span.into().map(|span| Label { span, text: String::new() });
        self
    }

    pub(crate) fn related(
        mut self,
        span: impl Into<Option<Span>>,
        text: impl Into<String>,
    ) -> Self {
        if let Some(span) = span.into() {
            self.related.push(Label { span, text: text.into() });
        }
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Maximum number of findings of each severity. It limits the time that talmox spends on a file that is not an
/// inventory.
const MOST: usize = 1000;

/// Collector of findings. It drops duplicates, and findings above the maximum number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    list: Vec<Diagnostic>,
    known: HashSet<u64>,
    hasher: RandomState,
    errors: usize,
    warnings: usize,
    unlisted: usize,
    /// Whether one of the findings says that a file could not be read at all.
    is_unreadable: bool,
}

impl Findings {
    pub(crate) fn push(&mut self, found: Diagnostic) {
        self.is_unreadable |= found.code.is_about_whole_file();
        let count = match found.severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        // A problem of a layer is found again for each node and each cluster that uses the layer.
        let place = found.primary.as_ref().map(|label| label.span);
        let is_new = self.known.insert(self.hasher.hash_one((place, found.code, &found.message)));
        if !is_new {
            return;
        }
        if *count < MOST {
            *count += 1;
            self.list.push(found);
        } else {
            self.unlisted += 1;
        }
    }

    /// Whether further errors will be dropped. If so, their messages do not have to be formatted.
    pub(crate) fn is_full(&self) -> bool {
        self.errors >= MOST
    }

    /// Counts an error that is dropped.
    pub(crate) fn count_one(&mut self) {
        self.unlisted += 1;
    }

    pub(crate) fn is_unreadable(&self) -> bool {
        self.is_unreadable
    }

    pub(crate) fn append(&mut self, others: Self, change: impl Fn(Diagnostic) -> Diagnostic) {
        self.unlisted += others.unlisted;
        for found in others.list {
            self.push(change(found));
        }
    }

    /// Returns the findings in the order of the files, and the number of dropped findings.
    pub(crate) fn finish(mut self) -> (Vec<Diagnostic>, usize) {
        self.list.sort_by(|a, b| {
            let key = |diagnostic: &Diagnostic| {
                let place = diagnostic.primary.as_ref().map(|label| label.span);
                (place, diagnostic.severity, diagnostic.code)
            };
            key(a).cmp(&key(b)).then_with(|| a.message.cmp(&b.message))
        });
        (self.list, self.unlisted)
    }
}
