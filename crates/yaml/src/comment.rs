//! Comments in trees.
//!
//! A tree contains comments only if it was read with [`read_with_comments`](crate::read_with_comments). Comments are
//! nodes among the items of a list and the entries of a mapping. Their tag cannot occur in a source text. A comment
//! after a value (`a: 1 # why`) is placed in front of the value.

use crate::scalar::{Scalar, Style};
use crate::tree::{Entry, Map, Node, Seq, Span, Value};

/// Tag of comment nodes. No YAML text can contain a tag with a NUL.
const COMMENT_TAG: &str = "\0comment";

impl Node {
    /// Comment node. `text` is the text after the `#`.
    pub fn comment(text: impl Into<String>) -> Self {
        let scalar = Scalar { text: text.into(), style: Style::Plain };
        Self {
            value: Value::Scalar(scalar),
            span: Span::default(),
            tag: Some(COMMENT_TAG.to_owned()),
        }
    }

    /// Text after the `#`, if this node is a comment.
    pub fn as_comment(&self) -> Option<&str> {
        match self.tag.as_deref() {
            Some(COMMENT_TAG) => self.as_str(),
            _ => None,
        }
    }

    /// Returns the tree without comments.
    #[must_use]
    pub fn without_comments(&self) -> Self {
        let value = match &self.value {
            Value::Scalar(_) => return self.clone(),
            Value::Seq(seq) => Value::Seq(Seq {
                items: seq
                    .items
                    .iter()
                    .filter(|item| item.as_comment().is_none())
                    .map(Self::without_comments)
                    .collect(),
                flow: seq.flow,
            }),
            Value::Map(map) => Value::Map(Map {
                entries: map
                    .entries
                    .iter()
                    .filter(|entry| entry.as_comment().is_none())
                    .map(|entry| Entry {
                        key: entry.key.clone(),
                        value: entry.value.without_comments(),
                    })
                    .collect(),
                flow: map.flow,
            }),
        };
        Self { value, span: self.span, tag: self.tag.clone() }
    }
}

impl Entry {
    /// Comment among the entries of a mapping.
    pub fn comment(text: impl Into<String>) -> Self {
        Self { key: Node::comment(text), value: Node::default() }
    }

    /// Text after the `#`, if this entry is a comment.
    pub fn as_comment(&self) -> Option<&str> {
        self.key.as_comment()
    }
}

/// Comment reported by the parser.
pub(crate) struct ParsedComment {
    text: String,
    start: usize,
    /// Number of characters before the `#` on the line of the comment.
    column: usize,
    /// Whether the line contains only blanks before the comment.
    own_line: bool,
}

impl ParsedComment {
    pub(crate) fn new(source: &str, text: &str, span: Span) -> Self {
        let line = line_before(source, span.start);
        Self {
            text: text.trim_end_matches('\r').to_owned(),
            start: span.start,
            column: line.chars().count(),
            own_line: line.trim().is_empty(),
        }
    }
}

fn line_before(source: &str, at: usize) -> &str {
    let before = source.get(..at).unwrap_or_default();
    before.rsplit('\n').next().unwrap_or_default()
}

/// Inserts the comments of a text into its trees. A comment on its own line belongs to the innermost collection that is
/// not indented deeper than the comment.
pub(crate) fn place(source: &str, documents: &mut [Node], mut found: Vec<ParsedComment>) {
    // The parser looks ahead, so it may report a comment before the node that precedes the comment.
    found.sort_by_key(|comment| comment.start);
    let mut placer = Placer { source, found: found.into_iter().peekable() };
    let starts: Vec<usize> = documents.iter().map(|node| node.span.start).collect();
    for (index, document) in documents.iter_mut().enumerate() {
        let limit = match starts.get(index + 1) {
            Some(next) => marker_before(source, *next),
            None => source.len(),
        };
        placer.node(document, 0, limit);
    }
}

/// Position of the `---` before the document at `start`.
fn marker_before(source: &str, start: usize) -> usize {
    let before = source.get(..start).unwrap_or_default();
    before.rfind("\n---").map_or(start, |at| at + 1)
}

struct Placer<'a> {
    source: &'a str,
    found: std::iter::Peekable<std::vec::IntoIter<ParsedComment>>,
}

impl Placer<'_> {
    /// Inserts comments into a node. `from` is the start of the node's entry, and `limit` is the start of the next
    /// entry.
    fn node(&mut self, node: &mut Node, from: usize, limit: usize) {
        // An alias expands to a node at another place of the text. That node already has its comments.
        if node.span.start < from {
            return;
        }
        let column = line_before(self.source, node.span.start).chars().count();
        let (start, end) = (node.span.start, node.span.end);
        match &mut node.value {
            Value::Scalar(_) => {}
            Value::Map(map) => {
                let own = std::mem::take(&mut map.entries);
                let starts: Vec<usize> = own.iter().map(|entry| entry.key.span.start).collect();
                for (index, mut entry) in own.into_iter().enumerate() {
                    let next =
                        next_start(&starts, index, start, if map.flow { end } else { limit });
                    map.entries.extend(self.before(starts[index]).map(Entry::comment));
                    let beside = self.item(&mut entry.value, starts[index], next);
                    map.entries.extend(beside.into_iter().map(Entry::comment));
                    map.entries.push(entry);
                }
                let rest = self.rest(column, limit, map.flow.then_some(end));
                map.entries.extend(rest.into_iter().map(Entry::comment));
            }
            Value::Seq(seq) => {
                let own = std::mem::take(&mut seq.items);
                let starts: Vec<usize> = own.iter().map(|item| item.span.start).collect();
                for (index, mut item) in own.into_iter().enumerate() {
                    let next =
                        next_start(&starts, index, start, if seq.flow { end } else { limit });
                    seq.items.extend(self.before(starts[index]).map(Node::comment));
                    let beside = self.item(&mut item, starts[index], next);
                    seq.items.extend(beside.into_iter().map(Node::comment));
                    seq.items.push(item);
                }
                let rest = self.rest(column, limit, seq.flow.then_some(end));
                seq.items.extend(rest.into_iter().map(Node::comment));
            }
        }
    }

    /// Inserts comments into the value of an entry. Returns the comments on the same line as the entry.
    fn item(&mut self, value: &mut Node, from: usize, limit: usize) -> Vec<String> {
        let mut beside = vec![];
        let is_scalar = value.as_scalar().is_some();
        let key_line_end = if is_scalar { limit } else { value.span.start };
        while let Some(comment) =
            self.found.next_if(|comment| !comment.own_line && comment.start < key_line_end)
        {
            beside.push(comment.text);
        }
        self.node(value, from, limit);
        while let Some(comment) =
            self.found.next_if(|comment| !comment.own_line && comment.start < limit)
        {
            beside.push(comment.text);
        }
        beside
    }

    fn before(&mut self, start: usize) -> impl Iterator<Item = String> + use<> {
        let mut texts = vec![];
        while let Some(comment) = self.found.next_if(|comment| comment.start < start) {
            texts.push(comment.text);
        }
        texts.into_iter()
    }

    /// Texts of the remaining comments at the end of a collection.
    fn rest(&mut self, column: usize, limit: usize, flow_end: Option<usize>) -> Vec<String> {
        let mut texts = vec![];
        while let Some(comment) = self.found.next_if(|comment| match flow_end {
            Some(end) => comment.start < end,
            None => comment.own_line && comment.column >= column && comment.start < limit,
        }) {
            texts.push(comment.text);
        }
        texts
    }
}

/// Start of the next entry. An entry that an alias or a merge key copied from another place is skipped.
fn next_start(starts: &[usize], index: usize, from: usize, limit: usize) -> usize {
    starts.get(index + 1).copied().filter(|next| *next >= from).unwrap_or(limit)
}

#[cfg(test)]
mod tests {
    use crate::{Node, emit_all, read, read_with_comments};

    fn round_trip(text: &str) -> String {
        let documents = read_with_comments(text).expect("readable");
        let bare: Vec<_> = documents.iter().map(Node::without_comments).collect();
        let plain = read(text).expect("readable");
        assert_eq!(emit_all(&bare, 4), emit_all(&plain, 4));
        emit_all(&documents, 4)
    }

    #[test]
    fn comments_round_trip_in_place() {
        let text = "\
# top
a:
    # first in a
    b: 1
    # before c
    c: two
    # end of a
# before d
d:
    - x
    # in list
    - z: 1
      # in item
      w: 2
      # end of item
    # before a list in a list
    - - q
      # between
      - r
    # end of list
e:
    f:
        g: 1
        # deep
    # less deep
h: |
    # no comment
# end
#
";
        assert_eq!(round_trip(text), text);
    }

    #[test]
    fn comments_beside_values_move_before_them() {
        assert_eq!(
            round_trip(
                "a: 1 # one\nb: # two\n  - x # three\n  -\n    # four\n    y: 1\nc: {d: 1} # five\n"
            ),
            "# one\na: 1\n# two\nb:\n    # three\n    - x\n    # four\n    - \"y\": 1\n# five\nc:\n    d: 1\n"
        );
        assert_eq!(round_trip("a:\n- b\n# c\n- d\n"), "a:\n    - b\n    # c\n    - d\n");
    }

    #[test]
    fn comments_belong_to_their_document() {
        let text = "a: 1\n# end of one\n---\n# two\nb: 2\n";
        assert_eq!(round_trip(text), text);
    }

    #[test]
    fn long_comments_are_kept() {
        let text = format!("{}a:\n{}    b: 1\n", "# top\n".repeat(500), "    # in\n".repeat(500));
        assert_eq!(round_trip(&text), text);
    }

    #[test]
    fn collections_with_only_comments_are_empty() {
        let documents = read_with_comments("a: [ # one\n]\nb: 1\n").unwrap();
        assert_eq!(emit_all(&documents, 4), "# one\na: []\nb: 1\n");
    }

    #[test]
    fn aliases_do_not_move_comments() {
        let text = "a: &a\n  # in a\n  x: 1\n# before b\nb: *a # beside\n# end\n";
        let documents = read_with_comments(text).unwrap();
        assert_eq!(
            emit_all(&documents, 4),
            "a:\n    # in a\n    x: 1\n# before b\n# beside\nb:\n    x: 1\n# end\n"
        );
    }
}
