//! Access to canonical trees. A value that is not set is read as Go's zero value.

use talmox_yaml::Node;

/// Value in a document, or a value that is not set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a>(Option<&'a Node>);

impl<'a> View<'a> {
    pub(crate) fn of(node: &'a Node) -> Self {
        Self(Some(node))
    }

    pub(crate) fn get(self, key: &str) -> Self {
        let value = self.0.and_then(Node::as_map).and_then(|map| map.get(key));
        Self(value.filter(|value| !value.is_null()))
    }

    pub(crate) fn at(self, path: &[&str]) -> Self {
        path.iter().fold(self, |view, key| view.get(key))
    }

    pub(crate) fn is_set(self) -> bool {
        self.0.is_some_and(|node| !node.is_null())
    }

    /// Text of a scalar; empty if it is not set.
    pub(crate) fn text(self) -> &'a str {
        self.0.and_then(Node::as_str).unwrap_or_default()
    }

    pub(crate) fn is_true(self) -> bool {
        self.text() == "true"
    }

    pub(crate) fn int(self) -> i128 {
        self.text().parse().unwrap_or(0)
    }

    /// Items of a list. A null item counts as not set.
    pub(crate) fn items(self) -> impl Iterator<Item = Self> {
        let items = self.0.and_then(Node::as_seq).map(|seq| seq.items.as_slice());
        items.unwrap_or_default().iter().map(|item| Self(Some(item).filter(|item| !item.is_null())))
    }

    pub(crate) fn texts(self) -> impl Iterator<Item = &'a str> {
        self.items().map(View::text)
    }

    /// Entries of a mapping. A null value counts as not set.
    pub(crate) fn entries(self) -> impl Iterator<Item = (&'a str, Self)> {
        let entries = self.0.and_then(Node::as_map).map(|map| map.entries.as_slice());
        entries.unwrap_or_default().iter().map(|entry| {
            let value = Some(&entry.value).filter(|value| !value.is_null());
            (entry.key.as_str().unwrap_or_default(), Self(value))
        })
    }

    pub(crate) fn is_empty(self) -> bool {
        self.items().next().is_none() && self.entries().next().is_none()
    }

    pub(crate) fn node(self) -> Option<&'a Node> {
        self.0
    }
}
