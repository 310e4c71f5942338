//! Result of a step that is done.

/// A step that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The step had nothing to do.
    Already,
    Acted,
}
