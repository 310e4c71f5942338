//! Phases of a run.

/// Phase of a run that a step belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunPhase {
    /// Provides something that other steps need, such as an image. Without these steps, the run omits it.
    Preparation,
    /// Changes the cluster, or waits for the result of a change.
    Change,
    /// Waits for the whole cluster, or writes its client files. A run in which only such steps are left omits them.
    End,
}
