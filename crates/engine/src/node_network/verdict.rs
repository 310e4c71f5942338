//! Whether a node has the network that its config describes, and why not.

/// State of the network of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeNetwork {
    /// As its config describes it.
    Configured,
    /// As its config describes it, but a further network card has no address.
    CardWithoutAddress(String),
    NotYet(WaitReason),
}

/// WaitReason of a wait that is not over, and what to do if it does not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WaitReason {
    pub(crate) text: String,
    /// None if waiting longer is all that can be done.
    pub(crate) advice: Option<&'static str>,
}

impl From<String> for WaitReason {
    fn from(text: String) -> Self {
        Self { text, advice: None }
    }
}

impl From<&str> for WaitReason {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

pub(super) fn not_yet(text: String) -> NodeNetwork {
    NodeNetwork::NotYet(text.into())
}
