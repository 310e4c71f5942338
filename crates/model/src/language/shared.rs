//! Lists that many nodes share. They are in memory only once.

use std::ops::Deref;
use std::sync::Arc;

/// List that several owners share. It is copied when one of them changes it. For example, 2000 nodes share the 2000
/// patches of a layer with lower precedence. An empty list, the most frequent case, uses no memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared<T>(Option<Arc<Vec<T>>>);

impl<T> Shared<T> {
    /// Identity of the list. It is equal for all owners that share the list.
    pub(crate) fn id(&self) -> *const () {
        self.0.as_ref().map_or(std::ptr::null(), |items| Arc::as_ptr(items).cast())
    }

    /// Items of the list. They are moved if this is the only owner, otherwise copied.
    pub(crate) fn into_items(self) -> Vec<T>
    where
        T: Clone,
    {
        self.0.map(Arc::unwrap_or_clone).unwrap_or_default()
    }

    pub(crate) fn change(&mut self) -> &mut Vec<T>
    where
        T: Clone,
    {
        Arc::make_mut(self.0.get_or_insert_default())
    }
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> From<Vec<T>> for Shared<T> {
    fn from(items: Vec<T>) -> Self {
        Self((!items.is_empty()).then(|| Arc::new(items)))
    }
}

impl<T> Deref for Shared<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.as_ref().map_or(&[], |items| items.as_slice())
    }
}

impl<'a, T> IntoIterator for &'a Shared<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
