//! The texts that an inventory was read from, and places in them.

use std::ops::Range;
use std::path::{Path, PathBuf};

/// One of the texts in [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(u32);

/// A place in one of the texts. Every value of an inventory has one, so it is kept small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    pub source: SourceId,
    start: u32,
    end: u32,
}

/// Line and column, both from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

#[derive(Clone, Debug)]
pub struct Source {
    /// `None` for the settings that are built in.
    path: Option<PathBuf>,
    text: String,
    /// Where each line starts.
    lines: Vec<usize>,
    /// Places that hold a secret and are never shown.
    secret: Vec<Range<usize>>,
}

impl Source {
    /// How messages name it.
    pub fn name(&self) -> String {
        self.path.as_ref().map_or_else(|| "built-in".to_owned(), |path| path.display().to_string())
    }

    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn position(&self, offset: usize) -> Position {
        let line = self.lines.partition_point(|start| *start <= offset).saturating_sub(1);
        let start = self.lines[line];
        let column = self.text.get(start..offset).map_or(0, |before| before.chars().count());
        Position { line: line + 1, column: column + 1 }
    }

    /// The text with every secret replaced by asterisks of the same length, for snippets.
    pub fn redacted_text(&self) -> String {
        let mut bytes = self.text.clone().into_bytes();
        for range in &self.secret {
            for byte in &mut bytes[range.clone()] {
                // Multi-byte characters become several asterisks: lengths stay, letters go.
                if !matches!(byte, b'\n' | b'\r') {
                    *byte = b'*';
                }
            }
        }
        String::from_utf8(bytes).expect("invariant: secrets span whole characters")
    }
}

/// All texts of one load.
#[derive(Clone, Debug, Default)]
pub struct Sources(Vec<Source>);

impl Sources {
    pub(crate) fn add(&mut self, path: Option<&Path>, text: String) -> SourceId {
        let lines = std::iter::once(0)
            .chain(text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(at, _)| at + 1))
            .collect();
        let source = Source { path: path.map(Path::to_owned), text, lines, secret: vec![] };
        self.0.push(source);
        SourceId(u32::try_from(self.0.len() - 1).expect("invariant: fewer than 2^32 files"))
    }

    pub fn get(&self, id: SourceId) -> &Source {
        &self.0[id.0 as usize]
    }

    pub fn iter(&self) -> impl Iterator<Item = &Source> {
        self.0.iter()
    }

    /// `file:line:column` of the start of a span.
    pub fn locate(&self, span: Span) -> String {
        let source = self.get(span.source);
        if source.path.is_none() {
            return source.name();
        }
        let position = source.position(span.range().start);
        format!("{}:{}:{}", source.name(), position.line, position.column)
    }

    pub(crate) fn hide(&mut self, span: Span) {
        self.0[span.source.0 as usize].secret.push(span.range());
    }
}

impl Span {
    pub(crate) fn new(source: SourceId, range: Range<usize>) -> Self {
        let offset = |at: usize| u32::try_from(at).expect("invariant: files are a few MiB at most");
        Self { source, start: offset(range.start), end: offset(range.end) }
    }

    pub(crate) fn of(source: SourceId, span: talmox_yaml::Span) -> Self {
        Self::new(source, span.start..span.end)
    }

    /// The bytes it covers.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters() {
        let mut sources = Sources::default();
        let id = sources.add(Some(Path::new("a.yaml")), "ä: 1\nbc: ü x\n".to_owned());
        let at = |start| sources.locate(Span::new(id, start..start));
        assert_eq!(at(0), "a.yaml:1:1");
        assert_eq!(at(4), "a.yaml:1:4");
        assert_eq!(at(6), "a.yaml:2:1");
        assert_eq!(at(13), "a.yaml:2:7");
    }

    #[test]
    fn hidden_places_become_asterisks() {
        let mut sources = Sources::default();
        let id = sources.add(None, "token: geheim\nnext: 1\n".to_owned());
        sources.hide(Span::new(id, 7..13));
        assert_eq!(sources.get(id).redacted_text(), "token: ******\nnext: 1\n");
    }
}
