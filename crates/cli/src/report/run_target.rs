//! The systems that a run changes.

/// The systems that a run changes: real ones, or those of a lab.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RunTarget {
    #[default]
    Real,
    /// A lab in another process, which continues when this process ends.
    ServedLab,
    /// A lab inside this process, which ends with it.
    OwnLab,
}

impl RunTarget {
    /// Whether the times of the events are lab time.
    pub(super) fn has_lab_time(self) -> bool {
        self != Self::Real
    }

    /// Whether the changes of a run remain after the end of this process.
    pub(super) fn remains(self) -> bool {
        self != Self::OwnLab
    }
}
