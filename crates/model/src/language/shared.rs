//! Values that many nodes have in common are held once.

use std::ops::Deref;
use std::sync::Arc;

/// A list that is copied only when one of its holders changes it. Two thousand nodes that take two
/// thousand patches from a layer below share them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared<T>(Arc<Vec<T>>);

impl<T> Shared<T> {
    /// Which list it is: the same for all that share it.
    pub(crate) fn id(&self) -> *const () {
        Arc::as_ptr(&self.0).cast()
    }

    /// The items themselves, if nobody else holds them; else a copy.
    pub(crate) fn into_items(self) -> Vec<T>
    where
        T: Clone,
    {
        Arc::unwrap_or_clone(self.0)
    }

    pub(crate) fn change(&mut self) -> &mut Vec<T>
    where
        T: Clone,
    {
        Arc::make_mut(&mut self.0)
    }
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self(Arc::new(vec![]))
    }
}

impl<T> From<Vec<T>> for Shared<T> {
    fn from(items: Vec<T>) -> Self {
        Self(Arc::new(items))
    }
}

impl<T> Deref for Shared<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<'a, T> IntoIterator for &'a Shared<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
