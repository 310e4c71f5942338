//! Result of a step that is done.

/// Whether a step that is done made a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The step had nothing to do.
    Already,
    Acted,
}
