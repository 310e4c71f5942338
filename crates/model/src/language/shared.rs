//! Values that many nodes have in common are held once.

use std::ops::Deref;
use std::sync::Arc;

/// A list that is copied only when one of its holders changes it. Two thousand nodes that take two
/// thousand patches from a layer below share them; an empty list, which most are, takes no memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared<T>(Option<Arc<Vec<T>>>);

impl<T> Shared<T> {
    /// Which list it is: the same for all that share it.
    pub(crate) fn id(&self) -> *const () {
        self.0.as_ref().map_or(std::ptr::null(), |items| Arc::as_ptr(items).cast())
    }

    /// The items themselves, if nobody else holds them; else a copy.
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
