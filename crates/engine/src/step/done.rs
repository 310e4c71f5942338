//! Result of a step that is done.

/// A step that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// There was nothing to do.
    Already,
    Acted,
}
