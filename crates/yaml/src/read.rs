//! Parsing of a text into trees, with limits on depth and size.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::mem;

use granit_parser::{
    Event, Options, Parser, ScalarStyle, ScanError, StructureStyle, Tag, YamlVersion, options,
};

use crate::comment;
use crate::go_yaml::{self, ScalarContext};
use crate::scalar::{Scalar, Style};
use crate::tree::{Entry, Map, Node, Seq, Span, Value};

/// Limits for reading a text. The defaults are enough for any text that a person writes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum nesting depth of collections, with aliases expanded.
    pub depth: usize,
    /// Maximum number of nodes copied for anchors and aliases.
    pub copied_nodes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { depth: 200, copied_nodes: 100_000 }
    }
}

/// Maximum number of consecutive comment lines.
const MAX_COMMENT_LINES: usize = 100_000;

/// Error in a YAML text with its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct ReadError {
    pub kind: ReadErrorKind,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadErrorKind {
    #[error("{0}")]
    Syntax(String),
    #[error("collections are nested more than {0} deep")]
    TooDeep(usize),
    #[error("anchors and aliases expand to more than {0} nodes")]
    TooManyCopies(usize),
    #[error("an alias refers to a node that contains it")]
    RecursiveAlias,
    #[error("`<<` takes a mapping or a list of mappings")]
    BadMerge,
    #[error("found incompatible YAML document")]
    OtherVersion,
}

/// Reads every document of a text with the default [`Limits`].
pub fn read(text: &str) -> Result<Vec<Node>, ReadError> {
    read_with(text, Limits::default())
}

/// Reads every document of a text. Aliases are expanded and merge keys (`<<`) are applied, as in go-yaml. Duplicate
/// keys are kept, so that the caller can report them.
pub fn read_with(text: &str, limits: Limits) -> Result<Vec<Node>, ReadError> {
    build(text, Builder::new(limits))
}

/// Reads a text as go-yaml reads it into nodes. Merge keys stay entries (see [`Map::merged`]). A text that is not YAML
/// 1.1, or declares another version, is rejected.
pub fn read_nodes(text: &str) -> Result<Vec<Node>, ReadError> {
    build(text, Builder { go_yaml_source: Some(text), ..Builder::new(Limits::default()) })
}

/// Reads the first document, without parsing the following documents.
pub fn read_first(text: &str) -> Result<Option<Node>, ReadError> {
    let builder = Builder { only_first: true, ..Builder::new(Limits::default()) };
    Ok(build(text, builder)?.pop())
}

fn build(text: &str, mut builder: Builder<'_>) -> Result<Vec<Node>, ReadError> {
    let limits = builder.limits;
    let options: Options = options! {
        emit_comments: false,
        flow_nesting_limit: limits.depth,
        block_nesting_limit: limits.depth,
    };
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| syntax(text, &error, limits))?;
        builder.event(event, span_of(&span))?;
        if builder.only_first && !builder.documents.is_empty() {
            break;
        }
    }
    Ok(builder.documents)
}

/// Like [`read`], but keeps the comments: see [`Node::comment`].
pub fn read_with_comments(text: &str) -> Result<Vec<Node>, ReadError> {
    let limits = Limits::default();
    let options: Options = options! {
        emit_comments: true,
        // Long comments before a value are valid, but the default limit of the parser is 96 lines.
        max_buffered_comment_events: MAX_COMMENT_LINES,
        flow_nesting_limit: limits.depth,
        block_nesting_limit: limits.depth,
    };
    let mut builder = Builder::new(limits);
    let mut comments = vec![];
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| syntax(text, &error, limits))?;
        let span = span_of(&span);
        match event {
            Event::Comment(comment, _) => {
                comments.push(comment::ParsedComment::new(text, &comment, span));
            }
            event => builder.event(event, span)?,
        }
    }
    comment::place(text, &mut builder.documents, comments);
    Ok(builder.documents)
}

fn span_of(span: &granit_parser::Span) -> Span {
    span.byte_range().map_or_else(Span::default, |r| Span::new(r.start, r.end))
}

fn syntax(text: &str, error: &ScanError, limits: Limits) -> ReadError {
    use granit_parser::ErrorKind as Kind;
    let at = error.marker().byte_offset().unwrap_or(text.len()).min(text.len());
    let at = match error.kind() {
        Kind::TabInPlainScalar => indenting_tab(text, at).unwrap_or(at),
        _ => at,
    };
    let kind = match error.kind() {
        Kind::RecursionLimitExceeded => ReadErrorKind::TooDeep(limits.depth),
        _ => ReadErrorKind::Syntax(error.info()),
    };
    ReadError { kind, span: Span::new(at, at) }
}

/// Position of the first tab that indents a line after `from`. The parser treats such a line as a continuation of the
/// text before it, and reports the start of that text as the position of the error.
fn indenting_tab(text: &str, from: usize) -> Option<usize> {
    let mut start = from + text.get(from..)?.find('\n')? + 1;
    for line in text[start..].split_inclusive('\n') {
        let indent = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
        if let Some(tab) = indent.find('\t') {
            return Some(start + tab);
        }
        start += line.len();
    }
    None
}

struct Builder<'s> {
    limits: Limits,
    /// Source text, if it is read by [`read_nodes`].
    go_yaml_source: Option<&'s str>,
    /// Whether the builder stops after the first document (see [`read_first`]).
    only_first: bool,
    documents: Vec<Node>,
    open: Vec<Open>,
    anchors: HashMap<usize, Anchored>,
    copied_nodes: usize,
}

/// Collection whose end was not read yet.
struct Open {
    node: Node,
    anchor: usize,
    /// Key of a mapping entry whose value was not read yet.
    key: Option<Node>,
    /// `height` is the height of the tallest finished child. `size` is the number of nodes below this collection.
    height: usize,
    size: usize,
}

struct Anchored {
    node: Node,
    height: usize,
    size: usize,
}

impl Builder<'_> {
    fn new(limits: Limits) -> Self {
        Self {
            limits,
            go_yaml_source: None,
            only_first: false,
            documents: vec![],
            open: vec![],
            anchors: HashMap::new(),
            copied_nodes: 0,
        }
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), ReadError> {
        match event {
            Event::DocumentStart(_, Some(version))
                if self.go_yaml_source.is_some() && !is_1_1(version) =>
            {
                return Err(ReadError { kind: ReadErrorKind::OtherVersion, span });
            }
            Event::DocumentStart(..) => self.anchors.clear(),
            Event::Scalar(text, style, anchor, tag) => {
                let scalar = Scalar { text: text.into_owned(), style: style_of(style) };
                self.check_as_go_yaml(&scalar, span)?;
                let node = Node { value: Value::Scalar(scalar), span, tag: tag_of(tag.as_deref()) };
                self.finish(node, anchor, 0, 1, span)?;
            }
            Event::SequenceStart(style, anchor, tag) => {
                let seq = Seq { items: vec![], flow: style == StructureStyle::Flow };
                self.start(Value::Seq(seq), anchor, tag.as_deref(), span);
            }
            Event::MappingStart(style, anchor, tag) => {
                let map = Map { entries: vec![], flow: style == StructureStyle::Flow };
                self.start(Value::Map(map), anchor, tag.as_deref(), span);
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(span)?,
            Event::Alias(id) => self.alias(id, span)?,
            _ => {}
        }
        Ok(())
    }

    fn check_as_go_yaml(&self, scalar: &Scalar, span: Span) -> Result<(), ReadError> {
        let Some(source) = self.go_yaml_source.and_then(|text| text.get(span.start..span.end))
        else {
            return Ok(());
        };
        let (in_flow, is_key) = match self.open.last() {
            Some(Open { node: Node { value: Value::Map(map), .. }, key, .. }) => {
                (map.flow, key.is_none())
            }
            Some(Open { node: Node { value: Value::Seq(seq), .. }, .. }) => (seq.flow, false),
            _ => (false, false),
        };
        match go_yaml::rejection(scalar, source, ScalarContext { in_flow, is_key }) {
            None => Ok(()),
            Some(reason) => Err(ReadError { kind: ReadErrorKind::Syntax(reason.to_owned()), span }),
        }
    }

    fn start(&mut self, value: Value, anchor: usize, tag: Option<&Tag>, span: Span) {
        let node = Node { value, span, tag: tag_of(tag) };
        self.open.push(Open { node, anchor, key: None, height: 0, size: 1 });
    }

    fn end(&mut self, span: Span) -> Result<(), ReadError> {
        let mut open = self.open.pop().expect("invariant: the parser closes only what it opened");
        if let Value::Map(map) = &mut open.node.value
            && self.go_yaml_source.is_none()
        {
            apply_merge_keys(map)?;
        }
        open.node.span.end = match &open.node.value {
            Value::Map(map) if !map.flow => map.entries.last().map(|entry| entry.value.span.end),
            Value::Seq(seq) if !seq.flow => seq.items.last().map(|item| item.span.end),
            _ => Some(span.end),
        }
        .unwrap_or(span.end)
        .max(open.node.span.start);
        self.finish(open.node, open.anchor, open.height + 1, open.size, span)
    }

    fn alias(&mut self, id: usize, span: Span) -> Result<(), ReadError> {
        let Some(anchored) = self.anchors.get(&id) else {
            return Err(ReadError { kind: ReadErrorKind::RecursiveAlias, span });
        };
        let (height, size) = (anchored.height, anchored.size);
        self.count_copy(size, span)?;
        let node = self.anchors[&id].node.clone();
        self.finish(node, 0, height, size, span)
    }

    fn count_copy(&mut self, size: usize, span: Span) -> Result<(), ReadError> {
        self.copied_nodes += size;
        if self.copied_nodes > self.limits.copied_nodes {
            return Err(ReadError {
                kind: ReadErrorKind::TooManyCopies(self.limits.copied_nodes),
                span,
            });
        }
        Ok(())
    }

    /// Adds a finished node to the collection that contains it.
    fn finish(
        &mut self,
        node: Node,
        anchor: usize,
        height: usize,
        size: usize,
        at: Span,
    ) -> Result<(), ReadError> {
        if self.open.len() + height > self.limits.depth {
            return Err(ReadError { kind: ReadErrorKind::TooDeep(self.limits.depth), span: at });
        }
        if anchor != 0 {
            self.count_copy(size, at)?;
            self.anchors.insert(anchor, Anchored { node: node.clone(), height, size });
        }
        let Some(parent) = self.open.last_mut() else {
            self.documents.push(node);
            return Ok(());
        };
        parent.height = parent.height.max(height);
        parent.size += size;
        match &mut parent.node.value {
            Value::Seq(seq) => seq.items.push(node),
            Value::Map(map) => match parent.key.take() {
                None => parent.key = Some(node),
                Some(key) => map.entries.push(Entry { key, value: node }),
            },
            Value::Scalar(_) => unreachable!("only collections are opened"),
        }
        Ok(())
    }
}

fn style_of(style: ScalarStyle) -> Style {
    match style {
        ScalarStyle::Plain => Style::Plain,
        ScalarStyle::SingleQuoted => Style::SingleQuoted,
        ScalarStyle::DoubleQuoted => Style::DoubleQuoted,
        ScalarStyle::Literal => Style::Literal,
        ScalarStyle::Folded => Style::Folded,
    }
}

fn tag_of(tag: Option<&Tag>) -> Option<String> {
    tag.map(|tag| format!("{}{}", tag.handle(), tag.suffix()))
}

fn is_1_1(version: YamlVersion) -> bool {
    (version.major, version.minor) == (1, 1)
}

impl Entry {
    /// Whether this entry is a merge key (`<<`) that was not replaced by its entries yet.
    fn is_merge(&self) -> bool {
        self.key.as_scalar().is_some_and(|key| key.style == Style::Plain && key.text == "<<")
    }
}

impl Map {
    /// The mapping with its merge keys replaced by their entries.
    pub fn merged(&self) -> Result<Cow<'_, Self>, ReadError> {
        if !self.entries.iter().any(Entry::is_merge) {
            return Ok(Cow::Borrowed(self));
        }
        let mut merged = self.clone();
        apply_merge_keys(&mut merged)?;
        Ok(Cow::Owned(merged))
    }
}

/// Replaces each merge key (`<<`) by its entries. Entries of the mapping itself take precedence over merged entries. If
/// several merged mappings have the same key, the first one takes precedence.
fn apply_merge_keys(map: &mut Map) -> Result<(), ReadError> {
    if !map.entries.iter().any(Entry::is_merge) {
        return Ok(());
    }
    let (merges, own): (Vec<_>, Vec<_>) =
        mem::take(&mut map.entries).into_iter().partition(Entry::is_merge);
    map.entries = own;
    let mut known: HashSet<String> =
        map.entries.iter().filter_map(|entry| entry.key.as_str().map(str::to_owned)).collect();
    for merge in merges {
        let bad = ReadError { kind: ReadErrorKind::BadMerge, span: merge.key.span };
        let sources = match merge.value.value {
            Value::Map(source) => vec![source],
            Value::Seq(seq) => seq
                .items
                .into_iter()
                .map(|item| match item.value {
                    Value::Map(source) => Ok(source),
                    _ => Err(bad.clone()),
                })
                .collect::<Result<_, _>>()?,
            Value::Scalar(_) => return Err(bad),
        };
        for mut source in sources {
            apply_merge_keys(&mut source)?;
            merge_entries(map, source.entries, &mut known);
        }
    }
    Ok(())
}

fn merge_entries(map: &mut Map, entries: Vec<Entry>, known: &mut HashSet<String>) {
    for entry in entries {
        if entry.key.as_str().is_none_or(|key| known.insert(key.to_owned())) {
            map.entries.push(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Node {
        let mut documents = read(text).expect("readable");
        assert_eq!(documents.len(), 1, "{documents:?}");
        documents.remove(0)
    }

    fn kind(text: &str) -> ReadErrorKind {
        read(text).expect_err("rejected").kind
    }

    #[test]
    fn scalars_keep_their_text_and_position() {
        let text = "auto: off\nmode: 0644\nname: 'x: y'\n";
        let root = one(text);
        let map = root.as_map().unwrap();
        let mode = map.get("mode").unwrap();
        assert_eq!(map.get("auto").unwrap().as_str(), Some("off"));
        assert_eq!(mode.as_str(), Some("0644"));
        assert_eq!(&text[mode.span.start..mode.span.end], "0644");
        assert_eq!(map.get("name").unwrap().as_scalar().unwrap().style, Style::SingleQuoted);
    }

    #[test]
    fn collection_spans_cover_their_content() {
        let text = "a:\n  - b: 1\n    c: 2\n# trailing\nd: {e: 3}\n";
        let root = one(text);
        let list = root.as_map().unwrap().get("a").unwrap();
        assert_eq!(&text[list.span.start..list.span.end], "- b: 1\n    c: 2");
        let flow = root.as_map().unwrap().get("d").unwrap();
        assert_eq!(&text[flow.span.start..flow.span.end], "{e: 3}");
    }

    #[test]
    fn tabs_are_reported_at_their_position() {
        for (text, line) in [
            ("a:\n\tb: 1\n", 2),
            ("a:\n  b: 1\n\tc: 2\nd: 3\n", 3),
            ("a:\n  b: 1\n  \tc: 2\n", 3),
            ("a:\n  - b: x\n    c: y\n\t- d: z\n", 4),
            ("a:\n  b: long\n    text\n\n\tc: 2\n", 5),
        ] {
            let error = read(text).expect_err("tabs do not indent");
            let before = &text[..error.span.start];
            assert_eq!(before.matches('\n').count() + 1, line, "{text:?}: {error:?}");
        }
    }

    #[test]
    fn aliases_and_merge_keys_are_applied() {
        let root = one("base: &b {x: 1, y: 2}\nnode: {<<: *b, y: 3}\n");
        let node = root.as_map().unwrap().get("node").unwrap().as_map().unwrap();
        assert_eq!(node.get("x").unwrap().as_str(), Some("1"));
        assert_eq!(node.get("y").unwrap().as_str(), Some("3"));
        assert_eq!(node.entries.len(), 2);
    }

    #[test]
    fn nodes_keep_their_merge_keys() {
        let root = &read_nodes("a: &a {x: 1}\nb: {<<: {<<: *a, y: 2}, y: 3}\n").unwrap()[0];
        let map = root.as_map().unwrap().get("b").unwrap().as_map().unwrap();
        assert!(map.get("<<").is_some());
        let merged = map.merged().unwrap();
        let values = ["x", "y", "<<"].map(|key| merged.get(key).and_then(Node::as_str));
        assert_eq!(values, [Some("1"), Some("3"), None]);
    }

    #[test]
    fn nodes_are_of_yaml_1_1() {
        for rejected in ["%YAML 1.2\n---\na", "[::1]", "{: a}", ": a", r#""\/""#, r#""\ud83d""#] {
            assert!(read_nodes(rejected).is_err(), "{rejected}");
        }
        for fine in ["%YAML 1.1\n---\na", "a: ::1", "[fd00::1]", "{a: }", r#""\\/""#] {
            assert!(read_nodes(fine).is_ok(), "{fine}");
        }
    }

    #[test]
    fn text_after_the_first_document_is_not_parsed() {
        let first = read_first("[a]\n[b]\n").unwrap();
        assert!(first.is_some_and(|node| node.as_seq().is_some()));
        assert_eq!(read_first("# nothing\n"), Ok(None));
    }

    #[test]
    fn documents_are_separated() {
        assert_eq!(read("a: 1\n---\nb: 2\n").unwrap().len(), 2);
        assert_eq!(read("").unwrap().len(), 0);
        assert_eq!(read("# only a comment\n").unwrap().len(), 0);
    }

    #[test]
    fn hostile_texts_are_rejected_quickly() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let alias = format!("*a{}, ", level - 1).repeat(10);
            bomb.push_str(&format!("a{level}: &a{level} [{alias}]\n"));
        }
        assert!(matches!(kind(&bomb), ReadErrorKind::TooManyCopies(_)));
        assert!(matches!(kind(&"[".repeat(100_000)), ReadErrorKind::TooDeep(_)));
        let staircase: String = (0..1000).map(|n| format!("{}a:\n", " ".repeat(n))).collect();
        assert!(matches!(kind(&staircase), ReadErrorKind::TooDeep(_)));
        // Each alias is shallow, but the expanded chain of aliases is too deep.
        let mut chain = "a0: &a0 [x]\n".to_owned();
        for level in 1..300 {
            chain.push_str(&format!("a{level}: &a{level} [*a{}]\n", level - 1));
        }
        assert!(matches!(kind(&chain), ReadErrorKind::TooDeep(_)));
        assert!(matches!(
            kind("a: &a [*a]"),
            ReadErrorKind::RecursiveAlias | ReadErrorKind::Syntax(_)
        ));
        assert!(matches!(kind("<<: 1"), ReadErrorKind::BadMerge));
    }

    proptest::proptest! {
        #[test]
        fn reading_never_panics_and_spans_are_in_range(text in "[ -~\n\t\u{e4}]{0,200}") {
            if let Ok(documents) = read(&text) {
                let mut queue: Vec<&Node> = documents.iter().collect();
                while let Some(node) = queue.pop() {
                    assert!(text.get(node.span.start..node.span.end).is_some(), "{node:?}");
                    match &node.value {
                        Value::Scalar(_) => {}
                        Value::Seq(seq) => queue.extend(&seq.items),
                        Value::Map(map) => {
                            queue.extend(map.entries.iter().flat_map(|e| [&e.key, &e.value]));
                        }
                    }
                }
            }
        }
    }
}
