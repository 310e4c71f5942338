//! Visits every value and comment of a tree, with its path and the comments before it. The order is the same as in
//! `sops`, because the MAC depends on it.

use std::collections::HashSet;

use talmox_yaml::{Entry, Map, Node, Seq, Value};

use super::SopsError;

/// Operation on each leaf. A leaf is a scalar or a comment, and is never null.
pub(super) trait Visit {
    fn leaf(&mut self, leaf: &Node, place: &Place) -> Result<Node, SopsError>;
}

/// Position of a leaf.
#[derive(Default)]
pub(super) struct Place {
    /// Keys that lead to the leaf. Positions in lists are not included.
    pub(super) path: Vec<String>,
    /// Comments before the leaf and before the collections that contain it, outermost first.
    pub(super) comments: Vec<Vec<String>>,
}

impl Place {
    /// Additional data that a ciphertext is bound to, so that the ciphertext cannot be moved to another path.
    pub(super) fn context(&self) -> String {
        format!("{}:", self.path.join(":"))
    }

    /// Path in messages.
    pub(super) fn describe(&self) -> String {
        self.path.join(".")
    }
}

/// Visits the root mapping of a document, and builds a tree from the results of the visitor.
pub(super) fn walk(root: &Node, visit: &mut dyn Visit) -> Result<Node, SopsError> {
    let Some(map) = root.as_map() else {
        return Err(SopsError::Unsupported { path: String::new(), what: root.describe() });
    };
    let mut place = Place::default();
    let map = walk_map(map, &mut place, visit)?;
    Ok(Node::from(Value::Map(map)))
}

fn walk_map(map: &Map, place: &mut Place, visit: &mut dyn Visit) -> Result<Map, SopsError> {
    place.comments.push(vec![]);
    let mut entries = Vec::with_capacity(map.entries.len());
    let mut keys = HashSet::new();
    for entry in &map.entries {
        if let Some(comment) = entry.as_comment() {
            note_comment(place, comment);
            let leaf = visit.leaf(&entry.key, place)?;
            entries.push(Entry::comment(leaf.as_str().unwrap_or_default()));
            continue;
        }
        let key = key_text(&entry.key, place)?;
        place.path.push(key.clone());
        if !keys.insert(key) {
            return Err(SopsError::Twice { path: place.describe() });
        }
        let value = walk_value(&entry.value, place, visit)?;
        place.path.pop();
        forget_comments(place);
        entries.push(Entry { key: entry.key.clone(), value });
    }
    place.comments.pop();
    Ok(Map { entries, flow: false })
}

fn walk_value(node: &Node, place: &mut Place, visit: &mut dyn Visit) -> Result<Node, SopsError> {
    Ok(match &node.value {
        Value::Map(map) => Node::from(Value::Map(walk_map(map, place, visit)?)),
        Value::Seq(seq) => Node::from(Value::Seq(walk_seq(seq, place, visit)?)),
        Value::Scalar(_) if node.tag.is_none() && node.is_null() => Node::plain("null"),
        Value::Scalar(_) => visit.leaf(node, place)?,
    })
}

fn walk_seq(seq: &Seq, place: &mut Place, visit: &mut dyn Visit) -> Result<Seq, SopsError> {
    place.comments.push(vec![]);
    let mut items = Vec::with_capacity(seq.items.len());
    for item in &seq.items {
        match item.as_comment() {
            // `sops` would turn an empty comment into an empty text, which would be an additional item.
            Some("") => {}
            // In a list, an encrypted comment is a separate item.
            Some(comment) => {
                note_comment(place, comment);
                items.push(visit.leaf(item, place)?);
            }
            None => {
                items.push(walk_value(item, place, visit)?);
                forget_comments(place);
            }
        }
    }
    place.comments.pop();
    Ok(Seq { items, flow: false })
}

fn note_comment(place: &mut Place, comment: &str) {
    if let Some(own) = place.comments.last_mut() {
        own.push(comment.to_owned());
    }
}

fn forget_comments(place: &mut Place) {
    if let Some(own) = place.comments.last_mut() {
        own.clear();
    }
}

fn key_text(key: &Node, place: &Place) -> Result<String, SopsError> {
    let text = key.as_str().filter(|text| {
        let is_text = key.describe() == "text" && talmox_yaml::timestamp(text).is_none();
        is_text || key.as_scalar().is_some_and(|s| s.style != talmox_yaml::Style::Plain)
    });
    text.map(str::to_owned).ok_or_else(|| SopsError::Unsupported {
        path: place.describe(),
        what: "a mapping with a key that is not text",
    })
}
