//! Whether a node has the network that its config describes, and why not.

/// How far a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    Yes,
    /// All is well, but for a further card without an address.
    ButFor(String),
    NotYet(Reason),
}

/// Reason of a wait that is not over, and what to do if it does not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reason {
    pub(crate) text: String,
    /// Nothing, where waiting longer is all that can be done.
    pub(crate) advice: Option<&'static str>,
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self { text, advice: None }
    }
}

impl From<&str> for Reason {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

pub(super) fn not_yet(text: String) -> Settled {
    Settled::NotYet(text.into())
}
