//! Moves comments to positions at which `sops` reads them back unchanged.
//!
//! An encrypted comment is bound to the path of the mapping or list that contains it. A collection may end with a
//! nested block that is followed by a comment. `sops` ignores the indentation of this comment, and reads it as part of
//! the innermost nested block, unless that block itself ends with a comment. Therefore the comment is moved into the
//! innermost block before it is encrypted.

use talmox_yaml::{Entry, Map, Node, Seq, Value};

use super::cipher::is_sealed;

/// Whether the values of a tree are encrypted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TreeState {
    /// Tree of an encrypted file. Encrypted comments are bound to their positions.
    Sealed,
    /// Decrypted tree. A comment in a list may become an item when it is encrypted.
    Plain,
}

/// The same tree, with comments only at positions at which `sops` reads them back unchanged.
pub(super) fn settled(root: &Node, stage: TreeState) -> Node {
    let mut root = root.clone();
    // Comments at the end of the root stay there, because the metadata follows them and `sops` then uses their
    // indentation.
    settle_children(&mut root, stage);
    root
}

fn settle(node: &mut Node, stage: TreeState) {
    settle_children(node, stage);
    let Some(last) = last_child(node).filter(|last| is_block(last)) else {
        return;
    };
    if !ends_with_comment(last, stage) && !ends_with_sealed_comment(node) {
        let comments = take_trailing(node);
        if let Some(last) = last_child(node) {
            append(last, comments);
        }
    }
}

fn settle_children(node: &mut Node, stage: TreeState) {
    match &mut node.value {
        Value::Scalar(_) => {}
        Value::Seq(seq) => seq.items.iter_mut().for_each(|item| settle(item, stage)),
        Value::Map(map) => {
            let mut entries = Vec::with_capacity(map.entries.len());
            for mut entry in std::mem::take(&mut map.entries) {
                settle(&mut entry.value, stage);
                // A mapping that contains only comments is written as `{}`, and its comments are written before it.
                if let Value::Map(inner) = &mut entry.value.value
                    && inner.entries.iter().all(is_comment_entry)
                {
                    entries.append(&mut inner.entries);
                }
                entries.push(entry);
            }
            map.entries = entries;
        }
    }
}

fn is_comment(node: &Node) -> bool {
    node.as_comment().is_some()
}

fn is_comment_entry(entry: &Entry) -> bool {
    entry.as_comment().is_some()
}

/// Last value of a collection, ignoring comments.
fn last_child(node: &mut Node) -> Option<&mut Node> {
    match &mut node.value {
        Value::Scalar(_) => None,
        Value::Seq(Seq { items, .. }) => items.iter_mut().rfind(|item| !is_comment(item)),
        Value::Map(Map { entries, .. }) => {
            let last = entries.iter_mut().rfind(|entry| !is_comment_entry(entry));
            last.map(|entry| &mut entry.value)
        }
    }
}

/// Whether a value is written on its own lines.
fn is_block(node: &Node) -> bool {
    match &node.value {
        Value::Scalar(_) => false,
        Value::Seq(seq) => !seq.items.is_empty(),
        Value::Map(map) => !map.entries.is_empty(),
    }
}

/// Whether the last line of the written block is a comment.
fn ends_with_comment(node: &mut Node, stage: TreeState) -> bool {
    let is_last = match &node.value {
        Value::Scalar(_) => false,
        Value::Seq(seq) => stage == TreeState::Sealed && seq.items.last().is_some_and(is_comment),
        Value::Map(map) => map.entries.last().is_some_and(is_comment_entry),
    };
    is_last || last_child(node).is_some_and(|last| is_block(last) && ends_with_comment(last, stage))
}

fn ends_with_sealed_comment(node: &Node) -> bool {
    let comment = match &node.value {
        Value::Scalar(_) => None,
        Value::Seq(seq) => seq.items.last().and_then(Node::as_comment),
        Value::Map(map) => map.entries.last().and_then(Entry::as_comment),
    };
    comment.is_some_and(is_sealed)
}

fn take_trailing(node: &mut Node) -> Vec<String> {
    let mut comments = vec![];
    match &mut node.value {
        Value::Scalar(_) => {}
        Value::Seq(seq) => {
            while let Some(item) = seq.items.pop_if(|item| is_comment(item)) {
                comments.extend(item.as_comment().map(str::to_owned));
            }
        }
        Value::Map(map) => {
            while let Some(entry) = map.entries.pop_if(|entry| is_comment_entry(entry)) {
                comments.extend(entry.as_comment().map(str::to_owned));
            }
        }
    }
    comments.reverse();
    comments
}

/// Appends comments to the innermost block at the end of the node.
fn append(node: &mut Node, comments: Vec<String>) {
    if let Some(last) = last_child(node).filter(|last| is_block(last)) {
        return append(last, comments);
    }
    match &mut node.value {
        Value::Scalar(_) => {}
        Value::Seq(seq) => seq.items.extend(comments.into_iter().map(Node::comment)),
        Value::Map(map) => {
            let comments = comments.into_iter().map(Entry::comment);
            map.entries.extend(comments);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{TreeState, settled};

    fn again(text: &str) -> String {
        let documents = talmox_yaml::read_with_comments(text).unwrap();
        talmox_yaml::emit(&settled(&documents[0], TreeState::Plain), 4)
    }

    #[test]
    fn comments_after_a_nested_block_move_into_it() {
        let text = "a:\n    b:\n        c:\n            d: 1\n    # x\n    # z\ne: 1\n# end\n";
        let moved = "a:\n    b:\n        c:\n            d: 1\n            # x\n            # z\ne: 1\n# end\n";
        assert_eq!(again(text), moved);
        assert_eq!(again(moved), moved);
    }

    #[test]
    fn comments_stay_where_each_level_has_one() {
        let text = "a:\n    b:\n        c: 1\n        # x\n    # z\n# before\ne: 1\n";
        assert_eq!(again(text), text);
    }

    #[test]
    fn comments_of_empty_mappings_come_before_them() {
        let text = "a:\n    b: { # x\n    }\n    c: 1\n";
        assert_eq!(again(text), "a:\n    # x\n    b: {}\n    c: 1\n");
    }
}
