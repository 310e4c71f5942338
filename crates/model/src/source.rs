//! Texts of the inventory files, and positions in them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Number of bytes per block of the character index. The index makes the lookup of a position fast, even in a line of
/// several megabytes.
const BLOCK: usize = 1024;

/// Index of a text in [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(u32);

/// Byte range in one of the texts. Every value of an inventory has a span, so the type is small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    pub source: SourceId,
    start: u32,
    end: u32,
}

/// Line and column, starting at 1. Columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

#[derive(Clone, Debug)]
pub struct Source {
    /// Path of the file; `None` for the built-in settings.
    path: Option<PathBuf>,
    text: String,
    /// Byte offset of each line.
    lines: Vec<usize>,
    /// Number of characters before each block.
    characters: Vec<usize>,
    /// Byte ranges that contain a secret and are never shown, as a map from start to end.
    secret: BTreeMap<usize, usize>,
    redacted: OnceLock<String>,
}

impl Source {
    /// Name of this source in messages: the path of its file, or `built-in`.
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
        let column = self.characters_before(offset) - self.characters_before(self.lines[line]);
        Position { line: line + 1, column: column + 1 }
    }

    fn characters_before(&self, offset: usize) -> usize {
        let offset = offset.min(self.text.len());
        let block = offset / BLOCK;
        self.characters[block] + count_characters(&self.text.as_bytes()[block * BLOCK..offset])
    }

    /// Text in which asterisks replace every secret, for snippets. The length of the text does not change.
    pub fn redacted_text(&self) -> &str {
        self.redacted.get_or_init(|| {
            let mut bytes = self.text.clone().into_bytes();
            for (start, end) in &self.secret {
                for byte in &mut bytes[*start..*end] {
                    // Each byte becomes one asterisk, so that byte offsets do not change.
                    if !matches!(byte, b'\n' | b'\r') {
                        *byte = b'*';
                    }
                }
            }
            String::from_utf8(bytes).expect("invariant: secrets span whole characters")
        })
    }

    /// Whether a part of the range contains a secret.
    pub(crate) fn is_hidden(&self, place: &Range<usize>) -> bool {
        let before = self.secret.range(..place.end.max(place.start + 1)).next_back();
        before.is_some_and(|(_, end)| *end > place.start)
    }

    fn hide(&mut self, place: Range<usize>) {
        if place.is_empty() {
            return;
        }
        // Overlapping ranges are joined into one range.
        let (mut start, mut end) = (place.start, place.end);
        while let Some((other, other_end)) =
            self.secret.range(..end).next_back().map(|(at, end)| (*at, *end))
        {
            if other_end <= start {
                break;
            }
            self.secret.remove(&other);
            start = start.min(other);
            end = end.max(other_end);
        }
        self.secret.insert(start, end);
        self.redacted = OnceLock::new();
    }
}

/// Number of characters whose first byte is in `bytes`.
fn count_characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

/// All texts of the loaded inventories.
#[derive(Clone, Debug, Default)]
pub struct Sources(Vec<Source>);

impl Sources {
    pub(crate) fn add(&mut self, path: Option<&Path>, text: String) -> SourceId {
        let lines = std::iter::once(0)
            .chain(text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(at, _)| at + 1))
            .collect();
        let mut counted = 0;
        let mut characters = vec![];
        for block in text.as_bytes().chunks(BLOCK) {
            characters.push(counted);
            counted += count_characters(block);
        }
        characters.push(counted);
        let source = Source {
            path: path.map(Path::to_owned),
            text,
            lines,
            characters,
            secret: BTreeMap::new(),
            redacted: OnceLock::new(),
        };
        self.0.push(source);
        SourceId(u32::try_from(self.0.len() - 1).expect("invariant: fewer than 2^32 files"))
    }

    pub fn get(&self, id: SourceId) -> &Source {
        &self.0[id.0 as usize]
    }

    pub fn iter(&self) -> impl Iterator<Item = &Source> {
        self.0.iter()
    }

    /// Start of a span as `file:line:column`.
    pub fn locate(&self, span: Span) -> String {
        let source = self.get(span.source);
        if source.path.is_none() {
            return source.name();
        }
        let position = source.position(span.range().start);
        format!("{}:{}:{}", source.name(), position.line, position.column)
    }

    pub(crate) fn hide(&mut self, span: Span) {
        self.0[span.source.0 as usize].hide(span.range());
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

    /// Whether the span is in the built-in settings, which are always the first source.
    pub(crate) fn is_builtin(self) -> bool {
        self.source == SourceId(0)
    }

    /// Byte range of the span.
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
    fn hidden_ranges_become_asterisks() {
        let mut sources = Sources::default();
        let id = sources.add(None, "token: geheim\nnext: 1\n".to_owned());
        sources.hide(Span::new(id, 7..13));
        assert_eq!(sources.get(id).redacted_text(), "token: ******\nnext: 1\n");
        assert!(sources.get(id).is_hidden(&(8..9)) && sources.get(id).is_hidden(&(0..20)));
        assert!(!sources.get(id).is_hidden(&(0..7)) && !sources.get(id).is_hidden(&(13..20)));
        sources.hide(Span::new(id, 9..11));
        sources.hide(Span::new(id, 5..8));
        assert_eq!(sources.get(id).redacted_text(), "token********\nnext: 1\n");
    }

    #[test]
    fn positions_in_a_huge_line_are_correct() {
        let mut sources = Sources::default();
        let text = "ä".repeat(5000);
        let id = sources.add(Some(Path::new("a.yaml")), format!("x\n{text}"));
        for at in [0, 1, 511, 512, 1024, 5000] {
            let place = Span::new(id, 2 + 2 * at..2 + 2 * at);
            assert_eq!(sources.locate(place), format!("a.yaml:2:{}", at + 1));
        }
    }
}
